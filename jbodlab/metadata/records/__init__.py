"""The metadata records: declared once, with the encoder and decoder made from the declaration."""
