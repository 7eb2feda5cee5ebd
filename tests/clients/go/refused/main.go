// Asks for what may not be served, as an application does that knows nothing of that: franz-go.
package main

import (
	"context"
	"log"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap, topic, feature := os.Args[1], os.Args[2], os.Args[3]
	options := []kgo.Opt{kgo.SeedBrokers(strings.Split(bootstrap, ",")...)}
	if feature == "transactions" {
		options = append(options, kgo.TransactionalID("not-served"), kgo.DefaultProduceTopic(topic))
	} else {
		options = append(options, kgo.ShareGroup("not-served"), kgo.ConsumeTopics(topic))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if feature == "transactions" {
		if err := client.BeginTransaction(); err != nil {
			log.Fatal(err)
		}
		record := kgo.StringRecord("not served")
		if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
			log.Fatal(err)
		}
		return
	}
	for {
		fetches := client.PollFetches(context.Background())
		if err := fetches.Err0(); err != nil {
			log.Fatal(err)
		}
		fetches.EachError(func(_ string, _ int32, err error) { log.Fatal(err) })
	}
}
