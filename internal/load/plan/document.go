package plan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"chokepoint/internal/load/arrival"
)

// Keys of the file that are not the name of a flag.
const (
	keyEndpoints  = "endpoints"
	keyThresholds = "thresholds"
)

// planKey is a key of the plan as a whole: the name of the flag that reads it.
type planKey struct {
	name string
	many bool // a list, of which each item is one
	path bool // a file, relative to the plan
}

var planKeys = []planKey{
	{name: flagDuration}, {name: flagCount}, {name: flagArrivals}, {name: "seed"}, {name: "warmup"}, {name: "start-at"},
	{name: flagClosed}, {name: flagQuantum}, {name: "graceful-stop"}, {name: flagMaxLag}, {name: "engine"}, {name: "loops"}, {name: "phase"},
	{name: flagInsecure}, {name: flagCACert, path: true}, {name: flagCert, path: true}, {name: flagKey, path: true},
	{name: "server-name"}, {name: "connect-to", many: true}, {name: "resolve", many: true}, {name: "source", many: true},
	{name: flagKeepAlive}, {name: flagMaxAge}, {name: flagMaxRequests},
}

// document is a file as it was written.
type document struct {
	settings  []setting
	every     description // of all endpoints
	endpoints []description
	lines     map[string]string // the place of every key of the plan as a whole
}

// setting is a flag that the file sets.
type setting struct{ flag, key, text, at string }

// place is where the file has a key; empty if it has not.
func (d document) place(key string) string { return d.lines[key] }

// placeOf is where the file sets a flag to a text; empty if it does not.
func (d document) placeOf(flag, text string) string {
	for _, s := range d.settings {
		if s.flag == flag && s.text == text {
			return s.at
		}
	}
	return ""
}

// mentioned is the place of the longest key that a text names in words; empty if
// it names none.
func (d document) mentioned(text string) string {
	longest := ""
	for key := range d.lines {
		if len(key) > len(longest) && strings.Contains(letters(text), letters(key)) {
			longest = key
		}
	}
	return d.lines[longest]
}

// reader reads one file.
type reader struct {
	path, dir string
	document  document
	faults    Faults
}

// readDocument reads the YAML file at path.
func readDocument(path string) (document, Faults) {
	data, err := readAll("plan", path, maxPlan)
	if err != nil {
		return document{}, Faults{{Err: err}}
	}
	return parseDocument(path, data)
}

// parseDocument reads the text of the YAML file at path.
func parseDocument(path string, data []byte) (document, Faults) {
	r := reader{path: path, dir: filepath.Dir(path), document: document{every: newDescription(""), lines: map[string]string{}}}
	root, err := parseYAML(data)
	switch {
	case err != nil:
		r.faults.add(r.syntaxFault(err))
	case root == nil:
		r.faults.add(path, errors.New("the plan is empty; give endpoints and a duration"))
	default:
		r.readPlan(root)
	}
	return r.document, r.faults
}

// parseYAML is the one document of data; nil if there is none.
func parseYAML(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var root, next yaml.Node
	if err := decoder.Decode(&root); err == io.EOF {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(&next); err == nil {
		return nil, fmt.Errorf("yaml: line %d: a second document begins; give one plan", next.Line)
	} else if err != io.EOF {
		return nil, err
	}
	if len(root.Content) != 1 {
		return nil, nil
	}
	return root.Content[0], nil
}

var yamlError = regexp.MustCompile(`(?s)^yaml: (?:(?:unmarshal errors:\s*)?line (\d+): )?(.*)$`)

// syntaxFault is the place and the words of an error of package yaml.
func (r *reader) syntaxFault(err error) (at string, fault error) {
	parts := yamlError.FindStringSubmatch(err.Error())
	if parts == nil {
		return r.path, err
	}
	text := strings.Join(strings.Fields(parts[2]), " ")
	if strings.Contains(text, "cannot start any token") {
		text += `; quote a value that begins with a mark, as in "@body.json"`
	}
	if parts[1] == "" {
		return r.path, errors.New(text)
	}
	return r.path + ":" + parts[1], errors.New(text)
}

func (r *reader) at(n *yaml.Node) string { return r.path + ":" + strconv.Itoa(n.Line) }

// readPlan reads the keys of the plan as a whole.
func (r *reader) readPlan(root *yaml.Node) {
	for key, value := range r.pairs(root, "the plan") {
		name := key.Value
		r.document.lines[name] = r.at(key)
		if k, ok := endpointKeyOf(name); ok && name != "name" {
			r.readEndpointKey(r.document.every, k, value)
			continue
		}
		switch i := slices.IndexFunc(planKeys, func(k planKey) bool { return k.name == name }); {
		case i >= 0:
			r.readSetting(planKeys[i], value)
		case name == keyThresholds:
			r.readSetting(planKey{name: flagThreshold, many: true}, value)
		case name == keyEndpoints:
			r.readEndpoints(value)
		default:
			r.faults.add(r.at(key), unknownKey(name, planKeyNames()))
		}
	}
	for _, key := range []string{"url", flagRate} {
		if len(r.document.endpoints) > 0 && r.document.every.has(key) {
			r.faults.add(r.document.place(key), fmt.Errorf("%s is of one endpoint, and there is a list of them; write it into each", key))
		}
	}
	if len(r.document.endpoints) == 0 && len(r.document.every.texts) > 0 {
		r.document.every.at = r.path
	}
}

func planKeyNames() []string {
	names := []string{keyEndpoints, keyThresholds}
	for _, k := range planKeys {
		names = append(names, k.name)
	}
	return append(names, endpointKeyNames()[1:]...)
}

// pairs yields the keys and values of a mapping. A key that is given twice, or is
// no text, is a fault.
func (r *reader) pairs(n *yaml.Node, what string) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		n = resolved(n)
		if n.Kind != yaml.MappingNode {
			r.faults.add(r.at(n), fmt.Errorf("%s is not a mapping; write it as key: value, a line each", what))
			return
		}
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			switch {
			case key.Tag == "!!merge":
				r.faults.add(r.at(key), errors.New("merge keys are not read; what stands beside endpoints holds for each of them"))
				continue
			case key.Kind != yaml.ScalarNode:
				r.faults.add(r.at(key), fmt.Errorf("a key of %s is not a word", what))
				continue
			case seen[key.Value]:
				r.faults.add(r.at(key), fmt.Errorf("%s is given twice", shortened(key.Value)))
				continue
			}
			seen[key.Value] = true
			if !yield(key, n.Content[i+1]) {
				return
			}
		}
	}
}

// resolved is what an alias stands for, or n.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// texts are the scalars of n, which is one or, with many, a list of them.
func (r *reader) texts(n *yaml.Node, key string, many bool) []*yaml.Node {
	items := []*yaml.Node{resolved(n)}
	if many && items[0].Kind == yaml.SequenceNode {
		items = items[0].Content
	}
	var texts []*yaml.Node
	for _, item := range items {
		item = resolved(item)
		switch {
		case item.Kind != yaml.ScalarNode && many:
			r.faults.add(r.at(item), fmt.Errorf("%s is neither a value nor a list of them", key))
		case item.Kind != yaml.ScalarNode:
			r.faults.add(r.at(item), fmt.Errorf("%s is not a single value", key))
		case item.Tag == "!!null":
			r.faults.add(r.at(item), fmt.Errorf("%s has no value; give one, or leave the key out", key))
		default:
			texts = append(texts, item)
		}
	}
	return texts
}

// readSetting reads a key that a flag reads as well.
func (r *reader) readSetting(k planKey, value *yaml.Node) {
	for _, n := range r.texts(value, k.name, k.many) {
		text := n.Value
		if file, isReplay := strings.CutPrefix(text, arrival.KindReplay+":"); k.name == flagArrivals && isReplay && file != "" {
			text = arrival.KindReplay + ":" + inDir(r.dir, file)
		}
		if k.path {
			text = inDir(r.dir, text)
		}
		r.document.settings = append(r.document.settings, setting{flag: k.name, key: k.name, text: text, at: r.at(n)})
	}
}

func (r *reader) readEndpoints(list *yaml.Node) {
	list = resolved(list)
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		r.faults.add(r.at(list), errors.New("endpoints is not a list; write each as - name: a, with its url and rate below"))
		return
	}
	for _, item := range list.Content {
		d, before := newDescription(r.at(item)), len(r.faults)
		for key, value := range r.pairs(item, "an endpoint") {
			k, ok := endpointKeyOf(key.Value)
			if !ok {
				r.faults.add(r.at(key), unknownKey(key.Value, endpointKeyNames()))
				continue
			}
			r.readEndpointKey(d, k, value)
		}
		d.faulty = len(r.faults) > before
		r.document.endpoints = append(r.document.endpoints, d)
	}
}

// readEndpointKey reads a key of an endpoint into d.
func (r *reader) readEndpointKey(d description, k endpointKey, value *yaml.Node) {
	if k.name == "header" && resolved(value).Kind == yaml.MappingNode {
		for name, texts := range r.pairs(value, "header") {
			for _, n := range r.texts(texts, "header "+shortened(name.Value), true) {
				d.put(k, datum{text: name.Value + ": " + n.Value, at: r.at(n), dir: r.dir})
			}
		}
		return
	}
	for _, n := range r.texts(value, k.name, k.many) {
		d.put(k, datum{text: n.Value, at: r.at(n), dir: r.dir})
	}
}
