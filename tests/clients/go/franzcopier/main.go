// Copies a topic in transactions that have the consumed offsets in them: franz-go.
package main

import (
	"context"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"jbodlab/clients/events"
	"jbodlab/clients/journal"
)

const batch = 20

func main() {
	bootstrap, source, target, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	leave := events.UntilLeave()
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.TransactionalID(name),
		kgo.TransactionTimeout(10*time.Second),
		kgo.ConsumerGroup(name),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	told := journal.New()
	for {
		fetches := session.PollRecords(leave, batch)
		if leave.Err() != nil {
			return
		}
		fetches.EachError(func(_ string, _ int32, err error) { told.Failed(err) })
		if fetches.NumRecords() > 0 {
			copyOf(session, told, target, fetches.Records())
		}
	}
}

func copyOf(
	session *kgo.GroupTransactSession, told *journal.Journal, target string, records []*kgo.Record,
) {
	var values []string
	for _, record := range records {
		values = append(values, string(record.Value))
	}
	if err := session.Begin(); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	failed := kgo.AbortingFirstErrPromise(session.Client())
	for _, each := range told.Begins(values) {
		record := &kgo.Record{Topic: target, Partition: each.Partition, Value: []byte(each.Value)}
		session.Produce(ctx, record, failed.Promise())
	}
	err := failed.Err()
	if err != nil {
		told.Failed(err)
	}
	committed, err := session.End(ctx, kgo.TransactionEndTry(err == nil && !told.ToBeAborted()))
	if err != nil {
		log.Fatal(err)
	}
	told.Ended(committed)
}
