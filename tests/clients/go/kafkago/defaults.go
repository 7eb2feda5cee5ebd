package main

import (
	"context"
	"log"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"jbodlab/clients/events"
	"jbodlab/clients/secured"
)

// Longer than any test: what a writer knows of leaders it knows from the beginning.
const never = 1000 * time.Hour

// How writers reach brokers; what they know of leaders they know for the given time, 0 for the
// library's.
func transport(ttl time.Duration) *kafka.Transport {
	config, mechanism := secured.KafkaGo()
	return &kafka.Transport{MetadataTTL: ttl, TLS: config, SASL: mechanism}
}

// Creates the topic.
func create(brokers []string, topic string) {
	client := &kafka.Client{Addr: kafka.TCP(brokers...), Transport: transport(0)}
	answer, err := client.CreateTopics(context.Background(), &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 3, ReplicationFactor: 3}},
	})
	if err == nil {
		err = answer.Errors[topic]
	}
	if err != nil {
		log.Fatal(err)
	}
}

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
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: brokers, Topic: topic, GroupID: group, Dialer: secured.Dialer(),
	})
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
