module github.com/jbodlab/jbodlab/clients/go

go 1.21
