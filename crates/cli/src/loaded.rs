//! Profiles of one or many processes, merged, with each process's own numbers.

use std::path::{Path, PathBuf};

use profile::read::{Decoded, Merger};
use profile::{Endpoint, FileName, Profile, SelfReport, Values};

use crate::coverage::{Stretch, Until};
use crate::demangled;
use crate::endpoints;
use crate::filters::Filters;
use crate::focus;

/// A process of which there are profiles.
#[derive(Clone, Debug)]
pub struct Process {
    /// The service's name; the file's if nothing says one.
    pub service: String,
    /// The process id, 0 if unknown.
    pub pid: u64,
    /// Profiles of it.
    pub files: usize,
    /// What they add up to, as far as it is looked at.
    pub values: Values,
    /// The part of the wall time in which threads waited for work.
    pub left_out_ns: u64,
    /// The profiler's numbers of all its periods; `None` in files of others.
    pub report: Option<SelfReport>,
    /// How long these periods were, all together, in nanoseconds.
    pub reported_ns: u64,
    /// The times of its files.
    pub stretches: Vec<Stretch>,
}

/// All that was read.
#[derive(Debug)]
pub struct Loaded {
    /// All profiles as one.
    pub profile: Profile,
    /// The processes, in the order of their files.
    pub processes: Vec<Process>,
    /// The files.
    pub files: Vec<PathBuf>,
    /// Up to when a process was to be profiled, if somebody knows.
    pub until: Option<Until>,
}

impl Loaded {
    /// The numbers of the processes.
    pub fn pids(&self) -> Vec<u64> {
        self.processes.iter().map(|process| process.pid).collect()
    }

    /// What was profiled: the service, or all of them.
    pub fn name(&self) -> String {
        let mut names: Vec<&str> = self.processes.iter().map(|p| p.service.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }

    /// Leaves only what is looked at. It is done here and not file by file, since one file may know
    /// the endpoint of another's samples.
    pub fn filter(&mut self, filters: &Filters) {
        let profile = &mut self.profile;
        let mut samples = std::mem::take(&mut profile.samples);
        samples.retain(|sample| filters.keeps(profile, sample));
        profile.samples = samples;
        let mut requests = std::mem::take(&mut profile.endpoints);
        let name = |endpoint: &Endpoint| endpoints::or_none(profile.text(endpoint.name));
        requests.retain(|endpoint| filters.keeps_requests(name(endpoint)));
        profile.endpoints = requests;
    }

    /// Whether the files say of all processes that the profiler left them before their end.
    pub fn was_left(&self) -> bool {
        let mut processes = self.processes.iter();
        let was_left = |process: &Process| process.stretches.iter().any(Stretch::was_left);
        !self.processes.is_empty() && processes.all(was_left)
    }

    /// How long the profiler was in the processes: in two for a second each it is two seconds.
    pub fn reported_ns(&self) -> u64 {
        self.processes.iter().map(|process| process.reported_ns).fold(0, u64::saturating_add)
    }

    /// The profiler's numbers of all processes; `None` if no file has any.
    pub fn report(&self) -> Option<SelfReport> {
        let mut reports = self.processes.iter().filter_map(|process| process.report.as_ref());
        let mut all = reports.next()?.clone();
        for report in reports {
            // Of periods the memory is the largest, of processes it is the sum.
            let memory = all.own_memory_bytes.saturating_add(report.own_memory_bytes);
            // Each counts from its start.
            let lost = all.export_lost.saturating_add(report.export_lost);
            all.merge(report);
            (all.own_memory_bytes, all.export_lost) = (memory, lost);
        }
        Some(all)
    }
}

/// Reads one file after the other, so that not all have to be in memory.
#[derive(Debug, Default)]
pub struct Loader {
    filters: Filters,
    merger: Merger,
    processes: Vec<Process>,
    files: Vec<PathBuf>,
}

impl Loader {
    /// Reads for somebody who looks at a part only: the totals of processes are of that.
    pub fn new(filters: Filters) -> Self {
        Self { filters, ..Self::default() }
    }

    /// Adds what a file holds.
    pub fn add(&mut self, path: &Path, decoded: &Decoded) {
        let profile = &decoded.profile;
        let report = profile.report.as_ref();
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let named = FileName::parse(&name);
        let (service, pid) = match (report, named) {
            (Some(report), _) => (report.service.clone(), report.pid),
            (None, Some(named)) => (named.service.to_owned(), u64::from(named.pid)),
            (None, None) => (name.to_string(), 0),
        };
        let filters = &self.filters;
        let kept = profile.samples.iter().filter(|sample| filters.keeps(profile, sample));
        let left_out_ns = focus::left_out_ns(profile, kept.clone());
        let mut values = Values::default();
        kept.for_each(|sample| values.add(sample.values));
        let process = self.process(service, pid);
        process.files += 1;
        process.values.add(values);
        process.left_out_ns = process.left_out_ns.saturating_add(left_out_ns);
        match (&mut process.report, report) {
            (Some(sum), Some(report)) => sum.merge(report),
            (sum, Some(report)) => *sum = Some(report.clone()),
            (_, None) => {}
        }
        if let Some(report) = report {
            process.stretches.push(Stretch::of(profile, report));
            let period_ns = profile.period.duration_ns;
            process.reported_ns = process.reported_ns.saturating_add(period_ns);
        }
        self.files.push(path.to_owned());
        self.merger.add(profile);
    }

    fn process(&mut self, service: String, pid: u64) -> &mut Process {
        let known = self.processes.iter().position(|p| p.pid == pid && p.service == service);
        let position = known.unwrap_or_else(|| {
            self.processes.push(Process {
                service,
                pid,
                files: 0,
                values: Values::default(),
                left_out_ns: 0,
                report: None,
                reported_ns: 0,
                stretches: Vec::new(),
            });
            self.processes.len() - 1
        });
        &mut self.processes[position]
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The sum of all, not filtered yet.
    pub fn finish(self) -> Loaded {
        let mut profile = self.merger.finish();
        demangled::name(&mut profile);
        Loaded { profile, processes: self.processes, files: self.files, until: None }
    }
}
