// Package jbodlab gives a test a Kafka-compatible cluster whose disks it may break.
//
//	cluster := jbodlab.Start(t, jbodlab.Spec{Brokers: 3, Disks: 2})
//	topic := cluster.NewTopic(jbodlab.Topic{Partitions: 6})
//	fault := cluster.LeaderLogDir(topic, 0).Fails("eio", nil)
//	fault.WaitDetected()
//
// The cluster is `jbodlab serve`, from the path in $JBODLAB or the command `jbodlab`, or the server
// that Connect names. It ends with the test. Every method that fails ends the test.
package jbodlab

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Spec describes a cluster; zero values are defaults. Settings has all others by their names.
type Spec struct {
	Brokers     int
	Disks       int
	Controllers int
	Engine      string
	Security    string
	Config      map[string]string
	Settings    map[string]string
}

// Topic describes a topic; zero values are one partition with three replicas and a new name.
type Topic struct {
	Name       string            `json:"name"`
	Partitions int               `json:"partitions"`
	Replicas   int               `json:"replicas"`
	Config     map[string]string `json:"config,omitempty"`
}

// Cluster is a cluster behind the API of a server.
type Cluster struct {
	t      testing.TB
	api    api
	topics int
}

// LogDir is a log directory of a broker.
type LogDir struct {
	cluster *Cluster
	// Place is its name, such as broker-1/2.
	Place string
}

// Broker is a broker of the cluster.
type Broker struct {
	cluster *Cluster
	// ID is its node.id.
	ID int
}

// Controller is a controller of the cluster.
type Controller struct {
	cluster *Cluster
	// ID is its node.id.
	ID int
}

// Fault is a fault that has a proved effect.
type Fault struct {
	cluster *Cluster
	// ID is its number.
	ID int `json:"id"`
	// Where is its place.
	Where string `json:"where"`
	// Broken tells what it broke so far.
	Broken struct {
		Count int    `json:"count"`
		Text  string `json:"text"`
	} `json:"broken"`
}

// Keys has the keys of a kind of fault: for, calls, delay, percent and others.
type Keys map[string]any

const endTimeout = 30 * time.Second

// Start starts a cluster, which ends with the test.
func Start(t testing.TB, spec Spec) *Cluster {
	t.Helper()
	command := os.Getenv("JBODLAB")
	if command == "" {
		command = "jbodlab"
	}
	name := fmt.Sprintf("go-%d-%d", os.Getpid(), time.Now().UnixNano()%1_000_000)
	words := append([]string{"serve", "--output", "json", "--until-input-ends", "--cluster", name}, spec.words()...)
	server := exec.Command(command, words...)
	// It ends when this process does, however that ends.
	input, err := server.StdinPipe()
	if err != nil {
		t.Fatalf("jbodlab: %v", err)
	}
	said := &strings.Builder{}
	server.Stderr = said
	output, err := server.StdoutPipe()
	if err != nil {
		t.Fatalf("jbodlab: %v", err)
	}
	if err := server.Start(); err != nil {
		t.Fatalf("jbodlab: cannot start %s: %v", command, err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		late := time.AfterFunc(endTimeout, func() { _ = server.Process.Kill() })
		_ = server.Wait()
		late.Stop()
	})
	reader := bufio.NewReader(output)
	line, err := reader.ReadBytes('\n')
	if err != nil {
		t.Fatalf("jbodlab: %s serve has ended: %s", command, said)
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	var found struct{ URL, Token string }
	if err := json.Unmarshal(line, &found); err != nil {
		t.Fatalf("jbodlab: %q is no JSON: %v", line, err)
	}
	base, _, _ := strings.Cut(found.URL, "#")
	return Connect(t, base, found.Token)
}

// Connect uses the cluster of a server that runs; at the end of the test it is healed.
func Connect(t testing.TB, url, token string) *Cluster {
	t.Helper()
	return (&Cluster{api: api{base: strings.TrimSuffix(url, "/") + "/v1", token: token}}).In(t)
}

// In returns the cluster for another test, such as a subtest: a method that fails ends that one, and
// at its end the cluster is healed.
func (c *Cluster) In(t testing.TB) *Cluster {
	cluster := &Cluster{t: t, api: c.api}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("jbodlab: faults: %v", cluster.try("GET", "/faults?all=true", nil))
		}
		_ = cluster.try("POST", "/heal", nil)
	})
	return cluster
}

// Bootstrap returns the addresses of the brokers, as clients want them.
func (c *Cluster) Bootstrap() string {
	c.t.Helper()
	var found struct{ Bootstrap string }
	c.call("GET", "/cluster", nil, &found)
	return found.Bootstrap
}

// ClientConfig returns the settings of a client: java, librdkafka, kafka_python or franz_go.
func (c *Cluster) ClientConfig(client, user string) map[string]any {
	c.t.Helper()
	var found struct{ Config map[string]any }
	c.call("GET", "/client-config"+query("client", client, "user", user), nil, &found)
	return found.Config
}

// NewTopic creates a topic, waits until every partition has a leader, and returns its name.
func (c *Cluster) NewTopic(topic Topic) string {
	c.t.Helper()
	if topic.Name == "" {
		c.topics++
		topic.Name = fmt.Sprintf("test-%d-%d", time.Now().UnixNano()%1_000_000, c.topics)
	}
	topic.Partitions, topic.Replicas = max(topic.Partitions, 1), orElse(topic.Replicas, 3)
	c.call("POST", "/topics", topic, nil)
	return topic.Name
}

// LogDir returns a log directory of a broker; the first is number 1.
func (c *Cluster) LogDir(broker, number int) *LogDir {
	return &LogDir{c, fmt.Sprintf("broker-%d/%d", broker, number)}
}

// LeaderLogDir returns the log directory from which a partition is led.
func (c *Cluster) LeaderLogDir(topic string, partition int) *LogDir {
	c.t.Helper()
	return c.logDirOf(topic, partition, true)
}

// FollowerLogDir returns the log directory of the first follower of a partition.
func (c *Cluster) FollowerLogDir(topic string, partition int) *LogDir {
	c.t.Helper()
	return c.logDirOf(topic, partition, false)
}

// Leader returns the broker that leads a partition.
func (c *Cluster) Leader(topic string, partition int) *Broker {
	c.t.Helper()
	var broker int
	if _, err := fmt.Sscanf(c.LeaderLogDir(topic, partition).Place, "broker-%d", &broker); err != nil {
		c.t.Fatalf("jbodlab: %s-%d has no leader: %v", topic, partition, err)
	}
	return c.Broker(broker)
}

// Broker returns a broker; the first is 1.
func (c *Cluster) Broker(id int) *Broker { return &Broker{c, id} }

// Controllers returns the controllers by rising id.
func (c *Cluster) Controllers() []*Controller {
	c.t.Helper()
	var told []struct{ ID int }
	c.call("GET", "/controllers", nil, &told)
	found := make([]*Controller, 0, len(told))
	for _, one := range told {
		found = append(found, &Controller{c, one.ID})
	}
	return found
}

// ActiveController waits until a controller is active, and returns it.
func (c *Cluster) ActiveController() *Controller {
	c.t.Helper()
	c.wait("active", "true", 30*time.Second)
	var told []struct {
		ID   int
		Role string
	}
	c.call("GET", "/controllers", nil, &told)
	for _, one := range told {
		if one.Role == "active" {
			return &Controller{c, one.ID}
		}
	}
	c.t.Fatalf("jbodlab: no controller is active: %v", told)
	return nil
}

// Fails takes something from users of a closed cluster: user-removed or acl-removed.
func (c *Cluster) Fails(kind string, keys Keys) *Fault {
	c.t.Helper()
	return c.inject(kind, "cluster", keys)
}

// Heal undoes every fault, starts what has ended, and waits until all is well.
func (c *Cluster) Heal() {
	c.t.Helper()
	c.call("POST", "/heal", nil, nil)
}

// WaitLeaders waits until every partition of a topic has a leader.
func (c *Cluster) WaitLeaders(topic string) {
	c.t.Helper()
	c.wait("leaders", topic, 30*time.Second)
}

// WaitISR waits until every replica of a topic is in sync.
func (c *Cluster) WaitISR(topic string) {
	c.t.Helper()
	c.wait("isr", topic, time.Minute)
}

// WaitSettled waits until brokers serve, directories are online and replicas are in sync.
func (c *Cluster) WaitSettled() {
	c.t.Helper()
	c.wait("settled", "true", time.Minute)
}

// Fails breaks the directory; the kinds and their keys are those of the command line.
func (d *LogDir) Fails(kind string, keys Keys) *Fault {
	d.cluster.t.Helper()
	return d.cluster.inject(kind, d.Place, keys)
}

// State returns online, offline or unknown.
func (d *LogDir) State() string {
	d.cluster.t.Helper()
	var found struct{ State string }
	d.cluster.call("GET", "/directories/"+strings.TrimPrefix(d.Place, "broker-"), nil, &found)
	return found.State
}

// Fails breaks the process or the connections of the broker.
func (b *Broker) Fails(kind string, keys Keys) *Fault {
	b.cluster.t.Helper()
	return b.cluster.inject(kind, fmt.Sprintf("broker-%d", b.ID), keys)
}

// Kill kills it with SIGKILL.
func (b *Broker) Kill() { b.cluster.t.Helper(); b.act("kill") }

// Stop stops it in order.
func (b *Broker) Stop() { b.cluster.t.Helper(); b.act("stop") }

// Start starts it and waits until it serves.
func (b *Broker) Start() { b.cluster.t.Helper(); b.act("start") }

// Freeze freezes it with SIGSTOP.
func (b *Broker) Freeze() { b.cluster.t.Helper(); b.act("freeze") }

// Thaw lets it go on.
func (b *Broker) Thaw() { b.cluster.t.Helper(); b.act("thaw") }

// Kill kills it with SIGKILL.
func (c *Controller) Kill() { c.cluster.t.Helper(); c.act("kill") }

// Start starts it.
func (c *Controller) Start() { c.cluster.t.Helper(); c.act("start") }

// WaitDetected waits until clients are told that the directory is offline, or the broker is gone.
func (f *Fault) WaitDetected() {
	f.cluster.t.Helper()
	f.cluster.wait("detected", fmt.Sprint(f.ID), 10*time.Second)
}

// WaitBroken waits until it has broken something.
func (f *Fault) WaitBroken() {
	f.cluster.t.Helper()
	f.cluster.wait("broken", fmt.Sprint(f.ID), 10*time.Second)
}

// Heal undoes it and brings back what it took; harmless when it is healed already.
func (f *Fault) Heal() {
	f.cluster.t.Helper()
	f.cluster.call("DELETE", fmt.Sprintf("/faults/%d", f.ID), nil, nil)
}

func (b *Broker) act(verb string) {
	b.cluster.t.Helper()
	b.cluster.call("POST", fmt.Sprintf("/brokers/%d/%s", b.ID, verb), nil, nil)
}

func (c *Controller) act(verb string) {
	c.cluster.t.Helper()
	c.cluster.call("POST", fmt.Sprintf("/controllers/%d/%s", c.ID, verb), nil, nil)
}

func (c *Cluster) logDirOf(topic string, partition int, leads bool) *LogDir {
	c.t.Helper()
	var found struct {
		Replicas []struct {
			Directory string
			Leads     bool
		}
	}
	c.call("GET", fmt.Sprintf("/topics/%s/%d", topic, partition), nil, &found)
	for _, one := range found.Replicas {
		if one.Leads == leads && one.Directory != "" {
			return &LogDir{c, one.Directory}
		}
	}
	c.t.Fatalf("jbodlab: %s-%d has no such replica now", topic, partition)
	return nil
}

func (c *Cluster) inject(kind, place string, keys Keys) *Fault {
	c.t.Helper()
	wanted := map[string]any{"kind": kind, "where": place, "even_last_in_sync": true}
	for key, value := range keys {
		wanted[key] = value
	}
	fault := &Fault{cluster: c}
	c.call("POST", "/faults", wanted, fault)
	return fault
}

func (s Spec) words() []string {
	var words []string
	add := func(option, value string) {
		if value != "" && value != "0" {
			words = append(words, "--"+option, value)
		}
	}
	add("brokers", fmt.Sprint(s.Brokers))
	add("disks", fmt.Sprint(s.Disks))
	add("controllers", fmt.Sprint(s.Controllers))
	add("engine", s.Engine)
	add("security", s.Security)
	for key, value := range s.Config {
		add("config", key+"="+value)
	}
	for name, value := range s.Settings {
		add(strings.ReplaceAll(name, "_", "-"), value)
	}
	return words
}

func orElse(value, otherwise int) int {
	if value == 0 {
		return otherwise
	}
	return value
}
