"""Groups and committed offsets as pure decisions: what a coordinator answers, keeps and writes."""
