// Commits the record `kept` and aborts the record `dropped`, each in a transaction: franz-go.
package main

import (
	"context"
	"log"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap, topic, name := os.Args[1], os.Args[2], os.Args[3]
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.TransactionalID(name),
		kgo.DefaultProduceTopic(topic),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	transaction(client, "dropped", kgo.TryAbort)
	transaction(client, "kept", kgo.TryCommit)
}

func transaction(client *kgo.Client, value string, end kgo.TransactionEndTry) {
	if err := client.BeginTransaction(); err != nil {
		log.Fatal(err)
	}
	record := kgo.StringRecord(value)
	if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
		log.Fatal(err)
	}
	if err := client.EndTransaction(context.Background(), end); err != nil {
		log.Fatal(err)
	}
}
