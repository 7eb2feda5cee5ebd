// Orders are taken over HTTP and kept in a Kafka topic.
//
//	orders HOST:PORT,... TOPIC ADDRESS
//
// POST /orders/7 takes an order: 200 when Kafka has acknowledged it. POST /baskets/8,9 takes all
// orders of a basket or none, in a transaction: 402 when it is not paid. GET /orders lists those
// that are taken. 503: Kafka did not answer in time.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const takenDeadline = 20 * time.Second

var errNotPaid = errors.New("the basket is not paid")

// Orders are the orders of one topic.
type Orders struct {
	topic   string
	pay     func(numbers []string) bool
	seeds   kgo.Opt
	single  *kgo.Client
	baskets *kgo.Client
	// One transaction at a time: a producer has no more.
	basket sync.Mutex
}

// NewOrders connects; pay tells whether a basket is paid.
func NewOrders(bootstrap, topic string, pay func([]string) bool) (*Orders, error) {
	orders := &Orders{topic: topic, pay: pay, seeds: kgo.SeedBrokers(strings.Split(bootstrap, ",")...)}
	var err error
	// Idempotent, with acknowledgement of all replicas in sync: franz-go's defaults.
	if orders.single, err = kgo.NewClient(orders.seeds); err != nil {
		return nil, err
	}
	orders.baskets, err = kgo.NewClient(orders.seeds, kgo.TransactionalID("baskets-of-"+topic))
	return orders, err
}

// Close ends the connections.
func (o *Orders) Close() {
	o.single.Close()
	o.baskets.Close()
}

// Take takes an order.
func (o *Orders) Take(ctx context.Context, number string) error {
	return o.single.ProduceSync(ctx, o.records([]string{number})...).FirstErr()
}

// TakeBasket takes all orders of a basket or none.
func (o *Orders) TakeBasket(ctx context.Context, numbers []string) error {
	o.basket.Lock()
	defer o.basket.Unlock()
	if err := o.baskets.BeginTransaction(); err != nil {
		return err
	}
	err := o.baskets.ProduceSync(ctx, o.records(numbers)...).FirstErr()
	if err == nil && !o.pay(numbers) {
		err = errNotPaid
	}
	return errors.Join(err, o.baskets.EndTransaction(ctx, kgo.TransactionEndTry(err == nil)))
}

// All returns the orders that are in the topic now, sorted.
func (o *Orders) All(ctx context.Context, isolation kgo.IsolationLevel) ([]string, error) {
	ends, err := kadm.NewClient(o.single).ListCommittedOffsets(ctx, o.topic)
	if err != nil {
		return nil, err
	}
	left := map[int32]int64{}
	start := map[int32]kgo.Offset{}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			left[end.Partition], start[end.Partition] = end.Offset, kgo.NewOffset().AtStart()
		}
	})
	reader, err := kgo.NewClient(o.seeds, kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{o.topic: start}))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	found := []string{}
	for len(left) > 0 {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if !record.Attrs.IsControl() {
				found = append(found, string(record.Value))
			}
			if record.Offset+1 >= left[record.Partition] {
				delete(left, record.Partition)
			}
		})
	}
	slices.Sort(found)
	return found, nil
}

// Handler returns the orders over HTTP.
func (o *Orders) Handler() http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("POST /orders/{number}", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), takenDeadline)
		defer cancel()
		answer(w, nil, o.Take(ctx, r.PathValue("number")))
	})
	routes.HandleFunc("POST /baskets/{numbers}", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), takenDeadline)
		defer cancel()
		answer(w, nil, o.TakeBasket(ctx, strings.Split(r.PathValue("numbers"), ",")))
	})
	routes.HandleFunc("GET /orders", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), takenDeadline)
		defer cancel()
		found, err := o.All(ctx, kgo.ReadCommitted())
		answer(w, found, err)
	})
	return routes
}

func (o *Orders) records(numbers []string) []*kgo.Record {
	records := make([]*kgo.Record, 0, len(numbers))
	for _, number := range numbers {
		records = append(records, &kgo.Record{Topic: o.topic, Key: []byte(number), Value: []byte(number)})
	}
	return records
}

func answer(w http.ResponseWriter, found any, err error) {
	switch {
	case errors.Is(err, errNotPaid):
		http.Error(w, err.Error(), http.StatusPaymentRequired)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		_ = json.NewEncoder(w).Encode(found)
	}
}

func main() {
	orders, err := NewOrders(os.Args[1], os.Args[2], func([]string) bool { return true })
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(os.Args[3], orders.Handler()))
}
