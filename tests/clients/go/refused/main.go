// Asks for a share group, which is not served, as an application that knows nothing of that: franz-go.
package main

import (
	"context"
	"log"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ShareGroup("not-served"),
		kgo.ConsumeTopics(topic),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(context.Background())
		if err := fetches.Err0(); err != nil {
			log.Fatal(err)
		}
		fetches.EachError(func(_ string, _ int32, err error) { log.Fatal(err) })
	}
}
