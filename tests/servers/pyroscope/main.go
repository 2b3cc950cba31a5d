// Command pyroscope-api is both ends of Pyroscope's official API (github.com/grafana/pyroscope/api)
// for the tests: it takes profiles and answers queries as a server would, and asks any server.
//
//	pyroscope-api serve ADDRESS
//	pyroscope-api query URL SERVICE FROM_MS UNTIL_MS
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"

	"connectrpc.com/connect"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
)

// The types of profiles that are asked for.
var types = []string{"samples:count", "cpu:nanoseconds", "wall:nanoseconds", "gc:nanoseconds"}

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(words []string) error {
	switch {
	case len(words) == 2 && words[0] == "serve":
		return http.ListenAndServe(words[1], handler())
	case len(words) == 5 && words[0] == "query":
		from, err := strconv.ParseInt(words[3], 10, 64)
		if err != nil {
			return err
		}
		until, err := strconv.ParseInt(words[4], 10, 64)
		if err != nil {
			return err
		}
		return query(words[1], words[2], from, until)
	}
	return fmt.Errorf("usage: pyroscope-api serve ADDRESS | query URL SERVICE FROM_MS UNTIL_MS")
}

// query prints, by type, the sums of leaf functions that a server has for a service.
func query(url, service string, from, until int64) error {
	client := querierv1connect.NewQuerierServiceClient(http.DefaultClient, url)
	sums := map[string]map[string]int64{}
	for _, kind := range types {
		answer, err := client.SelectMergeProfile(context.Background(),
			connect.NewRequest(&querierv1.SelectMergeProfileRequest{
				ProfileTypeID: "process_cpu:" + kind + ":cpu:nanoseconds",
				LabelSelector: fmt.Sprintf("{service_name=%q,region=\"eu\"}", service),
				Start:         from,
				End:           until,
			}))
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		sums[kind] = byLeaf(answer.Msg)
	}
	return json.NewEncoder(os.Stdout).Encode(sums)
}
