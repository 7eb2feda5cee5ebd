// A member of a consumer group: kafka-go, with a reader for each partition of a generation; or a
// producer.
package main

import (
	"context"
	"errors"
	"log"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"jbodlab/clients/events"
)

const recordsPerCommitMax = 100

func main() {
	bootstrap, topic, group, mode := events.Arguments()
	leave := events.UntilLeave()
	brokers := strings.Split(bootstrap, ",")
	switch mode {
	case "create":
		create(brokers, topic)
	case "produce":
		produce(leave, brokers, topic, group, transport(0))
	case "stay":
		produce(leave, brokers, topic, group, transport(never))
	case "default":
		consumeByDefault(leave, brokers, topic, group)
	default:
		belong(leave, brokers, topic, group)
	}
}

func belong(leave context.Context, brokers []string, topic, group string) {
	member, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                group,
		Brokers:           brokers,
		Topics:            []string{topic},
		StartOffset:       kafka.FirstOffset,
		SessionTimeout:    45 * time.Second,
		HeartbeatInterval: 500 * time.Millisecond,
		JoinGroupBackoff:  500 * time.Millisecond,
		// Where no broker can be reached it forgets who it was, without leaving the group, which
		// then waits for its former self as long as this.
		RebalanceTimeout: 10 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	for {
		generation, err := member.Next(leave)
		if leave.Err() != nil {
			break
		}
		if err != nil {
			events.Error(err)
			continue
		}
		partitions := []int32{}
		for _, assigned := range generation.Assignments[topic] {
			partitions = append(partitions, int32(assigned.ID))
			generation.Start(func(ctx context.Context) {
				consume(ctx, brokers, topic, generation, assigned)
			})
		}
		events.Assigned(partitions)
	}
	if err := member.Close(); err != nil {
		log.Fatal(err)
	}
}

// Consume one partition until the generation ends; the generation ends with this function.
func consume(
	ctx context.Context,
	brokers []string,
	topic string,
	generation *kafka.Generation,
	assigned kafka.PartitionAssignment,
) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:   brokers,
		Topic:     topic,
		Partition: assigned.ID,
		MaxWait:   500 * time.Millisecond,
	})
	defer reader.Close()
	if err := reader.SetOffset(assigned.Offset); err != nil {
		events.Error(err)
		return
	}
	for uncommitted := 1; ; uncommitted++ {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			if !errors.Is(err, kafka.ErrGenerationEnded) {
				events.Error(err)
			}
			return
		}
		events.Record(int32(assigned.ID), message.Offset, message.Value)
		next := message.Offset + 1
		if next < message.HighWaterMark && uncommitted < recordsPerCommitMax {
			continue
		}
		uncommitted = 0
		err = generation.CommitOffsets(map[string]map[int]int64{topic: {assigned.ID: next}})
		if err != nil {
			events.Error(err)
			return
		}
		events.Committed(map[int32]int64{int32(assigned.ID): next})
	}
}
