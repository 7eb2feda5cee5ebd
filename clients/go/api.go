package jbodlab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const requestTimeout = 3 * time.Minute

// api sends requests to a server.
type api struct {
	base  string
	token string
}

var client = &http.Client{Timeout: requestTimeout}

// send sends a request and reads the answer into found, unless that is nil.
func (a api) send(method, path string, body, found any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, a.base+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token)
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= 300 {
		var problem struct{ Title, Detail string }
		_ = json.Unmarshal(text, &problem)
		return fmt.Errorf("%s %s: %s: %s", method, path, problem.Title, problem.Detail)
	}
	if found == nil || len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, found)
}

func (c *Cluster) call(method, path string, body, found any) {
	c.t.Helper()
	if err := c.api.send(method, path, body, found); err != nil {
		c.t.Fatalf("jbodlab: %v", err)
	}
}

// try sends a request whose failure does not end the test; it returns the answer or the error.
func (c *Cluster) try(method, path string, body any) any {
	var found any
	if err := c.api.send(method, path, body, &found); err != nil {
		return err
	}
	return found
}

func (c *Cluster) wait(what, value string, timeout time.Duration) {
	c.t.Helper()
	c.call("GET", "/wait"+query(what, value, "timeout", fmt.Sprintf("%gs", timeout.Seconds())), nil, nil)
}

func query(pairs ...string) string {
	fields := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fields.Set(pairs[i], pairs[i+1])
		}
	}
	return "?" + fields.Encode()
}
