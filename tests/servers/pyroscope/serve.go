package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"connectrpc.com/connect"
	"github.com/google/pprof/profile"
	googlev1 "github.com/grafana/pyroscope/api/gen/proto/go/google/v1"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
	"github.com/grafana/pyroscope/api/model/labelset"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// What servers take by default, as the reference of their configuration says
// (validation.max-…).
const (
	labelsMax       = 30
	labelNameMax    = 1024
	labelValueMax   = 2048
	profileBytesMax = 4 << 20
	samplesMax      = 16000
	sampleLabelsMax = 100
	depthMax        = 1000
	symbolMax       = 65535
)

// intake keeps all profiles that it took.
type intake struct {
	querierv1connect.UnimplementedQuerierServiceHandler
	mutex sync.Mutex
	kept  []series
}

// series is a profile with its labels.
type series struct {
	labels  map[string]string
	profile *profile.Profile
}

func handler() http.Handler {
	intake := &intake{}
	mux := http.NewServeMux()
	mux.Handle(pushv1connect.NewPusherServiceHandler(intake))
	mux.Handle(querierv1connect.NewQuerierServiceHandler(intake))
	return mux
}

// Push takes profiles; those that a server would refuse it refuses, too.
func (i *intake) Push(
	_ context.Context, request *connect.Request[pushv1.PushRequest],
) (*connect.Response[pushv1.PushResponse], error) {
	taken, err := take(request.Msg)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.kept = append(i.kept, taken...)
	return connect.NewResponse(&pushv1.PushResponse{}), nil
}

func take(request *pushv1.PushRequest) ([]series, error) {
	if err := known(request.ProtoReflect()); err != nil {
		return nil, err
	}
	var taken []series
	for _, raw := range request.Series {
		labels, err := takeLabels(raw)
		if err != nil {
			return nil, err
		}
		for _, sample := range raw.Samples {
			parsed, err := takeProfile(sample.RawProfile)
			if err != nil {
				return nil, err
			}
			taken = append(taken, series{labels, parsed})
		}
	}
	if len(taken) == 0 {
		return nil, errors.New("no profiles")
	}
	return taken, nil
}

func takeLabels(raw *pushv1.RawProfileSeries) (map[string]string, error) {
	if len(raw.Labels) > labelsMax {
		return nil, fmt.Errorf("%d labels", len(raw.Labels))
	}
	labels := map[string]string{}
	var names []string
	for _, label := range raw.Labels {
		err := labelset.ValidateLabelName(label.Name)
		if err != nil && !errors.Is(err, labelset.ErrLabelNameReserved) {
			return nil, err
		}
		if len(label.Name) > labelNameMax || len(label.Value) > labelValueMax {
			return nil, fmt.Errorf("the label %s is too long", label.Name)
		}
		names = append(names, label.Name)
		labels[label.Name] = label.Value
	}
	if !slices.IsSorted(names) || len(labels) != len(names) {
		return nil, fmt.Errorf("labels out of order, or twice: %v", names)
	}
	if labels["__name__"] == "" {
		return nil, errors.New("no __name__")
	}
	return labels, labelset.ValidateServiceName(labels["service_name"])
}

// takeProfile reads a profile twice: by the API's own messages, of which nothing may be unknown,
// and by pprof, which checks that all that is named is there.
func takeProfile(raw []byte) (*profile.Profile, error) {
	plain, err := unzipped(raw)
	if err != nil {
		return nil, err
	}
	if len(plain) > profileBytesMax {
		return nil, fmt.Errorf("%d bytes", len(plain))
	}
	var theirs googlev1.Profile
	if err := theirs.UnmarshalVT(plain); err != nil {
		return nil, err
	}
	if err := known(theirs.ProtoReflect()); err != nil {
		return nil, err
	}
	if err := fits(&theirs); err != nil {
		return nil, err
	}
	return profile.ParseUncompressed(plain)
}

func fits(theirs *googlev1.Profile) error {
	if len(theirs.Sample) > samplesMax {
		return fmt.Errorf("%d samples", len(theirs.Sample))
	}
	for _, sample := range theirs.Sample {
		if len(sample.LocationId) > depthMax || len(sample.Label) > sampleLabelsMax {
			return fmt.Errorf("%d frames, %d labels", len(sample.LocationId), len(sample.Label))
		}
	}
	for _, kind := range theirs.SampleType {
		// A type's name becomes part of an id whose parts are split at colons.
		if name := theirs.StringTable[kind.Type]; strings.ContainsAny(name, ":-") {
			return fmt.Errorf("the type %q", name)
		}
	}
	if theirs.PeriodType == nil {
		return errors.New("no period type")
	}
	for _, text := range theirs.StringTable {
		if len(text) > symbolMax {
			return fmt.Errorf("a text of %d bytes", len(text))
		}
	}
	return nil
}

func unzipped(raw []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(reader, profileBytesMax+1))
}

// known fails if a message has fields that its definition has not.
func known(message protoreflect.Message) error {
	if len(message.GetUnknown()) > 0 {
		return fmt.Errorf("unknown fields in %s", message.Descriptor().FullName())
	}
	var found error
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil || field.IsMap():
		case field.IsList():
			for at := range value.List().Len() {
				found = errors.Join(found, known(value.List().Get(at).Message()))
			}
		default:
			found = known(value.Message())
		}
		return found == nil
	})
	return found
}

var matcher = regexp.MustCompile(`(\w+)="([^"]*)"`)

// SelectMergeProfile gives all profiles of a type that have some labels, as one.
func (i *intake) SelectMergeProfile(
	_ context.Context, request *connect.Request[querierv1.SelectMergeProfileRequest],
) (*connect.Response[googlev1.Profile], error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	parts := strings.Split(request.Msg.ProfileTypeID, ":")
	if len(parts) != 5 {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("no type"))
	}
	wanted := matcher.FindAllStringSubmatch(request.Msg.LabelSelector, -1)
	var found []*profile.Profile
	for _, one := range i.kept {
		is := one.labels["__name__"] == parts[0]
		for _, pair := range wanted {
			is = is && one.labels[pair[1]] == pair[2]
		}
		at := one.profile.TimeNanos / 1e6
		if is && request.Msg.Start <= at && at <= request.Msg.End {
			found = append(found, one.profile)
		}
	}
	merged, err := only(found, parts[1:])
	if err != nil {
		return nil, connect.NewError(connect.CodeNotFound, err)
	}
	return connect.NewResponse(merged), nil
}

// only merges profiles and leaves the values of one type.
func only(found []*profile.Profile, kind []string) (*googlev1.Profile, error) {
	if len(found) == 0 {
		return nil, errors.New("no profile")
	}
	merged, err := profile.Merge(found)
	if err != nil {
		return nil, err
	}
	period := merged.PeriodType
	if period == nil || period.Type != kind[2] || period.Unit != kind[3] {
		return nil, fmt.Errorf("the period is of %v", period)
	}
	at := slices.IndexFunc(merged.SampleType, func(t *profile.ValueType) bool {
		return t.Type == kind[0] && t.Unit == kind[1]
	})
	if at < 0 {
		return nil, fmt.Errorf("no values of %s", kind[0])
	}
	merged.SampleType = merged.SampleType[at : at+1]
	for _, sample := range merged.Sample {
		sample.Value = sample.Value[at : at+1]
	}
	var written bytes.Buffer
	if err := merged.WriteUncompressed(&written); err != nil {
		return nil, err
	}
	answer := &googlev1.Profile{}
	return answer, proto.Unmarshal(written.Bytes(), answer)
}

// byLeaf gives the sums of a profile's first values by the innermost function.
func byLeaf(answer *googlev1.Profile) map[string]int64 {
	functions := map[uint64]string{}
	for _, function := range answer.Function {
		functions[function.Id] = answer.StringTable[function.Name]
	}
	locations := map[uint64]string{}
	for _, location := range answer.Location {
		if len(location.Line) > 0 {
			locations[location.Id] = functions[location.Line[0].FunctionId]
		}
	}
	sums := map[string]int64{}
	for _, sample := range answer.Sample {
		name := ""
		if len(sample.LocationId) > 0 {
			name = locations[sample.LocationId[0]]
		}
		if sample.Value[0] != 0 {
			sums[name] += sample.Value[0]
		}
	}
	return sums
}
