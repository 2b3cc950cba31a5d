//! Sends a profile as Datadog's own exporter does: `oracles URL PPROF START_NS END_NS
//! [ENDPOINT COUNT]...`.
#![forbid(unsafe_code)]

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use libdd_common::tag::Tag;
use libdd_profiling::exporter::{ProfileExporter, config};
use libdd_profiling::internal::EncodedProfile;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, file, start_ns, end_ns, endpoints @ ..] = &words[..] else {
        anyhow::bail!("usage: oracles URL PPROF START_NS END_NS [ENDPOINT COUNT]...")
    };
    let time = |ns: &str| anyhow::Ok(SystemTime::UNIX_EPOCH + Duration::from_nanos(ns.parse()?));
    let mut profile = EncodedProfile {
        start: time(start_ns)?,
        end: time(end_ns)?,
        buffer: std::fs::read(file).context("the profile")?,
        endpoints_stats: Default::default(),
    };
    for pair in endpoints.chunks_exact(2) {
        profile.endpoints_stats.add_endpoint_count(pair[0].clone(), pair[1].parse()?);
    }
    let tags = vec![Tag::new("service", "shop")?, Tag::new("language", "dotnet")?];
    let endpoint = config::agent(url.parse()?)?;
    let mut exporter = ProfileExporter::new("corprof", "0.1.0", "dotnet", Some(tags), endpoint)?;
    exporter.set_timeout(10_000);
    let request = exporter.build(profile, &[], &[], None, None, None)?;
    let answer = exporter.send(request, None)?;
    anyhow::ensure!(answer.status().is_success(), "{}", answer.status());
    Ok(())
}
