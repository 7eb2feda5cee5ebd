package main

import (
	"context"
	"log"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"jbodlab/clients/events"
	"jbodlab/clients/secured"
)

const flushed = 20 * time.Second

// Creates the topic.
func create(bootstrap, topic string) {
	seeds := kgo.SeedBrokers(strings.Split(bootstrap, ",")...)
	client, err := kgo.NewClient(append(secured.Franz(), seeds)...)
	if err == nil {
		_, err = kadm.NewClient(client).CreateTopic(context.Background(), 3, 3, nil, topic)
	}
	if err != nil {
		log.Fatal(err)
	}
	client.Close()
}

// Writes numbers as the library does unless told otherwise.
func produce(leave context.Context, bootstrap, topic, rate string) {
	client, err := kgo.NewClient(append(secured.Franz(),
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.DefaultProduceTopic(topic),
	)...)
	if err != nil {
		log.Fatal(err)
	}
	events.Numbers(leave, rate, func(number string) {
		record := &kgo.Record{Value: []byte(number)}
		client.Produce(context.Background(), record, func(record *kgo.Record, err error) {
			if err != nil {
				events.Error(err)
			} else {
				events.Acknowledged(record.Value)
			}
		})
	})
	ctx, cancel := context.WithTimeout(context.Background(), flushed)
	defer cancel()
	if err := client.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	client.Close()
}

// Consumes, and commits, as the library does unless told otherwise.
func consumeByDefault(leave context.Context, bootstrap, topic, group string) {
	client, err := kgo.NewClient(append(secured.Franz(),
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)...)
	if err != nil {
		log.Fatal(err)
	}
	for leave.Err() == nil {
		fetches := client.PollFetches(leave)
		if leave.Err() == nil {
			fetches.EachError(func(_ string, _ int32, err error) { events.Error(err) })
		}
		fetches.EachRecord(func(record *kgo.Record) {
			events.Record(record.Partition, record.Offset, record.Value)
		})
	}
	client.Close()
}
