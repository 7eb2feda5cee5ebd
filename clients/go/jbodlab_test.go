package jbodlab

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestADiskBreaksAndHeals(t *testing.T) {
	cluster := Start(t, Spec{Brokers: 3, Disks: 2, Settings: map[string]string{"disk_kind": ""}})
	if got := strings.Count(cluster.Bootstrap(), ","); got != 2 {
		t.Fatalf("expected three brokers, got %d commas", got)
	}
	topic := cluster.NewTopic(Topic{Partitions: 2})
	directory := cluster.LeaderLogDir(topic, 0)

	fault := directory.Fails("permission", nil)
	fault.WaitDetected()
	cluster.WaitLeaders(topic)
	if got := directory.State(); got != "offline" {
		t.Fatalf("expected the directory offline, got %s", got)
	}
	fault.Heal()
	cluster.WaitISR(topic)
	if got := directory.State(); got != "online" {
		t.Fatalf("expected the directory online, got %s", got)
	}
}

func TestABrokerIsKilledAndHealStartsIt(t *testing.T) {
	cluster := Start(t, Spec{Brokers: 2, Disks: 1})
	cluster.Broker(2).Kill()
	cluster.Heal()
	cluster.WaitSettled()
	if got := len(cluster.Controllers()); got != 1 {
		t.Fatalf("expected one controller, got %d", got)
	}
	if got := cluster.ActiveController().ID; got != cluster.Controllers()[0].ID {
		t.Fatalf("expected the only controller, got %d", got)
	}
}

func TestASubtestHealsTheClusterThatItShares(t *testing.T) {
	cluster := Start(t, Spec{Brokers: 3, Disks: 1})
	t.Run("one kills a broker", func(t *testing.T) { cluster.In(t).Broker(2).Kill() })
	t.Run("the next has all of them", func(t *testing.T) {
		var told []struct{ Running bool }
		cluster.In(t).call("GET", "/brokers", nil, &told)
		if len(told) != 3 || !told[1].Running {
			t.Fatalf("expected three brokers that run, got %v", told)
		}
	})
}

func TestARefusalHasTheReason(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("expected the token, got %q", r.Header.Get("Authorization"))
		}
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(`{"title": "It cannot be carried out now", "detail": "not now"}`))
	}))
	defer server.Close()
	err := api{base: server.URL + "/v1", token: "secret"}.send("POST", "/faults", Keys{"kind": "eio"}, nil)
	if err == nil || !strings.Contains(err.Error(), "not now") {
		t.Fatalf("expected the reason, got %v", err)
	}
}
