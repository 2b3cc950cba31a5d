//! What the page asks, and the answers.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use profile::Profile;
use serde_json::{Value as Json, json};
use server::http::{Request, Response};

use super::answer::{ns, packed, put_branch};
use super::changes::{self, Side};
use super::columns::{Columns, Identity, Source};
use super::lanes::{self, Window};
use super::selection::{Selection, Weights, state_names};
use super::sums::Sums;
use super::{places, requests};
use crate::origin::Origin;
use crate::value::Value;
use crate::varint::put;

/// Changes with what is answered.
const VERSION: u32 = 1;
/// Answers that are kept for the next question about the same.
const KEPT: usize = 4;
const BYTES: &str = "application/octet-stream";

/// Something to be kept by what it was made for, the latest last.
struct Kept<K, T>(Mutex<VecDeque<(K, Arc<T>)>>);

impl<K: PartialEq + Clone, T> Kept<K, T> {
    fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    fn get(&self, key: &K, make: impl FnOnce() -> T) -> Arc<T> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = lock().iter().find(|(other, _)| other == key) {
            return Arc::clone(known);
        }
        // Others need not wait meanwhile.
        let made = Arc::new(make());
        let mut kept = lock();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((key.clone(), Arc::clone(&made)));
        made
    }
}

/// Answers questions about columns, which may grow meanwhile.
pub struct Api {
    columns: RwLock<Columns>,
    name: String,
    /// Told with each question, so that none is about numbers of other columns.
    epoch: u64,
    /// Folders of PDBs; `None` if no line is to be looked for, since the files are strangers'.
    symbols: Option<Vec<PathBuf>>,
    weights: Kept<(usize, Option<(u64, u64)>), Weights>,
    sums: Kept<(usize, Selection), Sums>,
}

impl Api {
    /// Of columns that have a name.
    pub fn new(columns: Columns, name: String, symbols: Option<Vec<PathBuf>>) -> Self {
        let (weights, sums) = (Kept::new(), Kept::new());
        Self { columns: RwLock::new(columns), name, epoch: 0, symbols, weights, sums }
    }

    /// The same, with a number that no other columns have had.
    pub fn with_epoch(mut self, epoch: u64) -> Self {
        self.epoch = epoch;
        self
    }

    /// Adds a source.
    pub fn add(&self, identity: Identity, profile: &Profile) {
        self.columns.write().unwrap_or_else(PoisonError::into_inner).add(identity, profile);
    }

    /// The columns as they are now.
    pub fn columns(&self) -> RwLockReadGuard<'_, Columns> {
        self.columns.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a question; `None` if it is none.
    pub fn answer(&self, question: &str, request: &Request) -> Option<Response> {
        if request.part("epoch").is_some_and(|epoch| epoch != self.epoch.to_string()) {
            return Some(Response::error(409, "the numbers are of before; load the page anew"));
        }
        let parts = || request.query.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        let selected = match Selection::of(parts(), "") {
            Ok(selected) => selected,
            Err(why) => return Some(Response::error(400, &why)),
        };
        let columns = self.columns();
        let asked = Asked { api: self, columns: &columns, selection: selected };
        asked.answer(question, request)
    }
}

/// A question about columns as they are now.
struct Asked<'a> {
    api: &'a Api,
    columns: &'a Columns,
    selection: Selection,
}

impl Asked<'_> {
    fn answer(&self, question: &str, request: &Request) -> Option<Response> {
        let number = |name| request.part(name).and_then(|text| text.parse::<u32>().ok());
        let function = || number("of").filter(|of| self.has_function(*of));
        let no_function = || Response::error(400, "of= is no function's number");
        Some(match question {
            "header" => json(&self.header()),
            "flame" => Response::of(BYTES, self.flame(number("zoom").unwrap_or(0))),
            "sandwich" => {
                function().map_or_else(no_function, |of| Response::of(BYTES, self.sandwich(of)))
            }
            "search" => {
                let word = request.part("word").unwrap_or_default();
                let found = self.sums(&self.selection).matched(self.columns, word);
                json(&json!({ "ns": ns(found) }))
            }
            "lines" => function().map_or_else(no_function, |of| json(&self.lines(of))),
            "requests" => {
                let weights = self.weights(&self.selection);
                json(&requests::told(self.columns, &self.selection, &weights))
            }
            "timeline" => json(&self.timeline(number("slots").unwrap_or(1_000))),
            "diff" => self.diff(request),
            _ => return None,
        })
    }

    fn has_function(&self, of: u32) -> bool {
        (of as usize) < self.columns.functions.len()
    }

    /// What was calculated is good until there is more.
    fn generation(&self) -> usize {
        self.columns.sources.len()
    }

    fn weights(&self, selection: &Selection) -> Arc<Weights> {
        let key = (self.generation(), selection.range);
        self.api.weights.get(&key, || Weights::new(self.columns, selection.range))
    }

    fn sums(&self, selection: &Selection) -> Arc<Sums> {
        let key = (self.generation(), selection.clone());
        self.api.sums.get(&key, || Sums::of(self.columns, selection, &self.weights(selection)))
    }

    fn header(&self) -> Json {
        let columns = self.columns;
        let (begin, end) = columns.period();
        let has = |value: &Value| columns.rows.values[*value as usize].iter().any(|ns| *ns > 0);
        let values: Vec<_> = Value::ALL.iter().filter(|v| has(v)).map(|v| v.name()).collect();
        let functions = &columns.functions;
        let source = |source: &Source| {
            json!({ "name": source.name, "service": source.service, "version": source.version,
                    "instance": source.instance, "from": source.begin_us, "to": source.end_us(),
                    "has_moments": !source.moments.is_empty(),
                    "threads": columns.threads_of(source) })
        };
        let mut states: Vec<u8> = columns.rows.state.clone();
        states.sort_unstable();
        states.dedup();
        json!({
            "version": VERSION,
            "corprof": env!("CARGO_PKG_VERSION"),
            "name": self.api.name,
            "epoch": self.api.epoch,
            "files": columns.sources.len(),
            "from": begin,
            "to": end,
            "values": values,
            "functions": {
                "names": functions.iter().map(|of| &of.name).collect::<Vec<_>>(),
                "modules": functions.iter().map(|of| of.module).collect::<Vec<_>>(),
                "origins": functions.iter().map(|of| of.origin).collect::<Vec<_>>(),
            },
            "modules": columns.modules.list,
            "origins": Origin::ALL.map(Origin::name),
            "threads": columns.threads.list,
            "states": state_names(),
            "present": states,
            "endpoints": columns.endpoints.list,
            "labels": columns.labels.list,
            "has_lines": self.api.symbols.is_some(),
            "samples": columns.rows.len(),
            "moments": columns.moments.row.len(),
            "sources": columns.sources.iter().map(source).collect::<Vec<_>>(),
        })
    }

    fn flame(&self, zoom: u32) -> Vec<u8> {
        let sums = self.sums(&self.selection);
        let zoom = if (zoom as usize) < sums.total.len() { zoom } else { 0 };
        let branch = sums.branch(self.columns, zoom);
        let functions = sums.functions(self.columns);
        let header = json!({
            "nodes": branch.parents.len() - 1,
            "ids": branch.ids.len(),
            "is_cut": branch.is_cut,
            "zoom": zoom,
            "functions": functions.len(),
            "known": self.columns.functions.len(),
            "whole": ns(sums.whole()),
        });
        packed(&header, |bytes| {
            put_branch(bytes, &branch);
            functions.iter().for_each(|(of, ..)| put(bytes, (*of).into()));
            functions.iter().for_each(|(_, own, _)| put(bytes, ns(*own)));
            functions.iter().for_each(|(.., total)| put(bytes, ns(*total)));
        })
    }

    fn sandwich(&self, of: u32) -> Vec<u8> {
        let branches = self.sums(&self.selection).sandwich(self.columns, of);
        let nodes: Vec<_> = branches.iter().map(|branch| branch.parents.len() - 1).collect();
        packed(&json!({ "nodes": nodes }), |bytes| {
            branches.iter().for_each(|branch| put_branch(bytes, branch));
        })
    }

    fn lines(&self, of: u32) -> Json {
        let Some(symbols) = &self.api.symbols else { return json!({ "lines": [] }) };
        let weights = self.weights(&self.selection);
        places::told(self.columns, &self.selection, &weights, of, symbols)
    }

    fn timeline(&self, slots: u32) -> Json {
        let selection = &self.selection;
        let any_time = Selection { range: None, ..selection.clone() };
        let sources = |at: usize, source: &Source| any_time.has_source(at, source);
        let (begin, end) = self.columns.period();
        // It shows more than the selection is of: what else there is in the same time.
        let (from, to) = match selection.range {
            Some((from, to)) => (from.max(begin), to.min(end)),
            None => self.columns.period_of(sources).unwrap_or((begin, end)),
        };
        let window =
            Window { from, to: to.max(from + 1), slots: slots as usize, sources: &sources };
        lanes::lanes(self.columns, &window)
    }

    fn diff(&self, request: &Request) -> Response {
        let side = |prefix| {
            let parts = request.query.iter().map(|(n, v)| (n.as_str(), v.as_str()));
            Selection::of(parts, prefix)
        };
        let sides = match (side("base."), side("new.")) {
            (Ok(base), Ok(new)) => [base, new],
            (Err(why), _) | (_, Err(why)) => return Response::error(400, &why),
        };
        let weights = [self.weights(&sides[0]), self.weights(&sides[1])];
        let side = |at: usize| Side { selection: &sides[at], weights: &weights[at] };
        let is_total = request.part("time") == Some("total");
        json(&changes::told(self.columns, [side(0), side(1)], is_total))
    }
}

fn json(value: &Json) -> Response {
    Response::json(value.to_string())
}
