package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/jbodlab/jbodlab/clients/go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// service is the application, reached over HTTP as its users reach it.
type service struct {
	t      *testing.T
	url    string
	orders *Orders
}

func startService(t *testing.T, cluster *jbodlab.Cluster, topic string) service {
	t.Helper()
	paid := func(numbers []string) bool { return !slices.Contains(numbers, "unpaid") }
	orders, err := NewOrders(cluster.Bootstrap(), topic, paid)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(orders.Handler())
	t.Cleanup(func() { server.Close(); orders.Close() })
	return service{t, server.URL, orders}
}

func startCluster(t *testing.T, controllers int) (*jbodlab.Cluster, string) {
	t.Helper()
	cluster := jbodlab.Start(t, jbodlab.Spec{
		Brokers: 3, Disks: 2, Controllers: controllers,
		Config: map[string]string{"min.insync.replicas": "2"},
	})
	return cluster, cluster.NewTopic(jbodlab.Topic{Partitions: 3})
}

func (s service) post(path string) int {
	s.t.Helper()
	answer, err := http.Post(s.url+path, "", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

// placeWhile places orders one after another while act is carried out, and returns their numbers.
func (s service) placeWhile(act func()) []string {
	s.t.Helper()
	done := make(chan struct{})
	placed := make(chan []string)
	go func() {
		var numbers []string
		for after := 0; after < 20; {
			number := fmt.Sprintf("order-%06d", len(numbers))
			if status := s.post("/orders/" + number); status != http.StatusOK {
				s.t.Errorf("%s: expected 200, got %d", number, status)
			}
			numbers = append(numbers, number)
			select {
			case <-done:
				after++
			default:
			}
		}
		placed <- numbers
	}()
	act()
	close(done)
	return <-placed
}

func (s service) expect(wanted []string) {
	s.t.Helper()
	answer, err := http.Get(s.url + "/orders")
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	var found []string
	if err := json.NewDecoder(answer.Body).Decode(&found); err != nil {
		s.t.Fatal(err)
	}
	if !slices.Equal(found, wanted) {
		s.t.Fatalf("expected %d orders, got %d: %v", len(wanted), len(found), found)
	}
}

func TestNoOrderIsLostOrTakenTwiceWhenTheDiskOfTheLeaderBreaks(t *testing.T) {
	cluster, topic := startCluster(t, 1)
	service := startService(t, cluster, topic)

	placed := service.placeWhile(func() {
		fault := cluster.LeaderLogDir(topic, 0).Fails("eio", nil)
		fault.WaitDetected()
		cluster.WaitLeaders(topic)
	})

	service.expect(placed)
}

func TestOrdersGoOnWhenTheActiveControllerIsKilled(t *testing.T) {
	cluster, topic := startCluster(t, 3)
	service := startService(t, cluster, topic)
	killed := cluster.ActiveController()

	placed := service.placeWhile(func() {
		killed.Kill()
		// Only an active controller elects the next leader of the partition.
		cluster.LeaderLogDir(topic, 0).Fails("eio", nil).WaitDetected()
		cluster.WaitLeaders(topic)
	})

	service.expect(placed)
	if next := cluster.ActiveController(); next.ID == killed.ID {
		t.Fatalf("expected another controller than %d", killed.ID)
	}
}

func TestABasketIsTakenAsAWholeOrNotAtAll(t *testing.T) {
	cluster, topic := startCluster(t, 1)
	service := startService(t, cluster, topic)

	if status := service.post("/baskets/a,b"); status != http.StatusOK {
		t.Fatalf("expected 200, got %d", status)
	}
	if status := service.post("/baskets/c,unpaid"); status != http.StatusPaymentRequired {
		t.Fatalf("expected 402, got %d", status)
	}
	cluster.LeaderLogDir(topic, 0).Fails("eio", nil).WaitDetected()
	if status := service.post("/baskets/d,e"); status != http.StatusOK {
		t.Fatalf("expected 200, got %d", status)
	}

	service.expect([]string{"a", "b", "d", "e"})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	written, err := service.orders.All(ctx, kgo.ReadUncommitted())
	if wanted := []string{"a", "b", "c", "d", "e", "unpaid"}; err != nil || !slices.Equal(written, wanted) {
		t.Fatalf("expected %v in the log, got %v: %v", wanted, written, err)
	}
}
