// A member of a consumer group: franz-go, with either protocol; or a producer.
package main

import (
	"context"
	"log"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"jbodlab/clients/events"
)

// Partitions that this member has, as its callbacks tell.
type assignment struct {
	sync.Mutex
	held  map[int32]bool
	topic string
}

func (a *assignment) change(partitions map[string][]int32, held bool) {
	a.Lock()
	defer a.Unlock()
	for _, partition := range partitions[a.topic] {
		if held {
			a.held[partition] = true
		} else {
			delete(a.held, partition)
		}
	}
	events.Assigned(slices.Sorted(maps.Keys(a.held)))
}

func main() {
	bootstrap, topic, group, mode := events.Arguments()
	leave := events.UntilLeave()
	switch mode {
	case "create":
		create(bootstrap, topic)
	case "produce":
		produce(leave, bootstrap, topic, group)
	case "default":
		consumeByDefault(leave, bootstrap, topic, group)
	default:
		belong(leave, bootstrap, topic, group, mode)
	}
}

func belong(leave context.Context, bootstrap, topic, group, mode string) {
	has := &assignment{held: map[int32]bool{}, topic: topic}
	gone := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		has.change(partitions, false)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.OnPartitionsAssigned(
			func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
				has.change(partitions, true)
			},
		),
		kgo.OnPartitionsRevoked(gone),
		kgo.OnPartitionsLost(gone),
	}
	if mode == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		log.Fatal(err)
	}
	consume(leave, client, topic)
	client.Close()
}

func consume(leave context.Context, client *kgo.Client, topic string) {
	for {
		fetches := client.PollFetches(leave)
		if leave.Err() != nil {
			return
		}
		fetches.EachError(func(_ string, _ int32, err error) { events.Error(err) })
		fetches.EachRecord(func(record *kgo.Record) {
			events.Record(record.Partition, record.Offset, record.Value)
		})
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := client.CommitUncommittedOffsets(leave); err != nil {
			events.Error(err)
			continue
		}
		offsets := map[int32]int64{}
		for partition, committed := range client.CommittedOffsets()[topic] {
			offsets[partition] = committed.Offset
		}
		events.Committed(offsets)
	}
}
