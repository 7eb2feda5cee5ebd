package main

import (
	"context"
	"log"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"jbodlab/clients/events"
)

// Longer than any test: what a writer knows of leaders it knows from the beginning.
const never = 1000 * time.Hour

// Writes numbers as the library does unless told otherwise, but to every replica in sync. A batch
// waits for a hundred of them, or for a second; who writes one waits as long.
func produce(leave context.Context, brokers []string, topic, rate string, transport kafka.RoundTripper) {
	writer := &kafka.Writer{
		Addr: kafka.TCP(brokers...), Topic: topic, RequiredAcks: kafka.RequireAll,
		Transport: transport,
	}
	var writing sync.WaitGroup
	events.Numbers(leave, rate, func(number string) {
		writing.Go(func() {
			value := []byte(number)
			if err := writer.WriteMessages(context.Background(), kafka.Message{Value: value}); err != nil {
				events.Error(err)
			} else {
				events.Acknowledged(value)
			}
		})
	})
	writing.Wait()
	if err := writer.Close(); err != nil {
		log.Fatal(err)
	}
}

// Consumes, and commits, as the library does unless told otherwise.
func consumeByDefault(leave context.Context, brokers []string, topic, group string) {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: brokers, Topic: topic, GroupID: group})
	for {
		message, err := reader.ReadMessage(leave)
		if leave.Err() != nil {
			break
		}
		if err != nil {
			events.Error(err)
			continue
		}
		events.Record(int32(message.Partition), message.Offset, message.Value)
	}
	if err := reader.Close(); err != nil {
		log.Fatal(err)
	}
}
