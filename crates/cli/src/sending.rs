//! Sending from the command line: `corprof upload` and `corprof flush`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{anyhow, bail};
use config::{Config, LogLevel, Target};
use export::{
    Address, BadDestination, Client, Core, Cut, Destination, Held, Identity, Place, Post as _, Say,
    Verdict, Why, held_in, parcel, random_id, waiting_in,
};
use profile::Profile;

use crate::args::{FlushArgs, UploadArgs};
use crate::failure::{FAILED, Failure, USAGE};
use crate::units::count;
use crate::{files, holder, note, table, warn};

/// `corprof upload`: each file to each target; the exit code is 1 if one was not taken.
pub fn upload(args: &UploadArgs) -> Result<u8, Failure> {
    let config = config(&args.to).map_err(Failure::with(USAGE))?;
    let destinations = targets(&config)?;
    let (mut taken, mut known, mut failed) = (0, 0, 0);
    for path in &args.files {
        for file in files::expand(path)? {
            let profile = files::read(&file)?.profile;
            for destination in &destinations {
                if destination.target == Target::Server && !has_service(&config, &profile) {
                    failed += 1;
                    let (file, place) = (file.display(), &destination.address);
                    warn(format!(
                        "{file} was not sent to {place}: the file doesn't say which service it \
                         is of; set CORPROF_SERVICE=NAME"
                    ));
                    continue;
                }
                let verdict = send(&config, destination, &profile)?;
                let (file, place) = (file.display(), &destination.address);
                match verdict {
                    Verdict::Taken { was_there: false } => taken += 1,
                    Verdict::Taken { was_there: true } => known += 1,
                    Verdict::Later { why, .. } | Verdict::Never(why) => {
                        failed += 1;
                        let hint = access(destination.target, &why);
                        let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
                        warn(format!("{file} was not taken by {place}: {why}{hint}"));
                    }
                }
            }
        }
    }
    let known = match known {
        0 => String::new(),
        1 => ", 1 was there already".to_owned(),
        _ => format!(", {known} were there already"),
    };
    note(format!("{taken} sent{known}, {failed} not taken"));
    Ok(if failed == 0 { 0 } else { FAILED })
}

/// What to set where a target doesn't let in who sends; `None` if that is not why it said no.
pub fn access(target: Target, why: &Why) -> Option<&'static str> {
    let Why::Status { status: 401 | 403, .. } = why else { return None };
    match target {
        Target::Server => Some("set CORPROF_SERVER_TOKEN to the server's token"),
        Target::Pyroscope => Some(
            "set CORPROF_PYROSCOPE_TOKEN, or CORPROF_PYROSCOPE_USER and \
             CORPROF_PYROSCOPE_PASSWORD; a corprof serve takes its token there, too",
        ),
        Target::Datadog => Some("set CORPROF_DATADOG_API_KEY to a key of this site"),
        Target::Otlp => Some("set CORPROF_OTLP_HEADERS to what the target asks for"),
        Target::File => None,
    }
}

/// Whether the settings or the file say which service a profile is of.
fn has_service(config: &Config, profile: &Profile) -> bool {
    let of_file = profile.report.as_ref().is_some_and(|report| !report.service.is_empty());
    of_file || !config.service.is_empty()
}

/// `corprof flush`: what waits in a folder; the exit code is 1 if something still does.
pub fn flush(args: &FlushArgs) -> Result<u8, Failure> {
    /// Nothing is put there, so this only keeps it open.
    const SPOOL_MIB: u32 = 1 << 20;
    let mut config = config(&args.to).map_err(Failure::with(USAGE))?;
    let destinations = targets(&config)?;
    let shown = args.folder.display();
    if args.folder.is_file() {
        return Err(
            anyhow!("{shown}: it is a file, and no folder; `corprof upload` sends it").into()
        );
    }
    if !args.folder.is_dir() {
        return Err(anyhow!("{shown}: no such folder").into());
    }
    config.export.spool_dir = Some(args.folder.clone());
    config.export.spool_mib = SPOOL_MIB;
    let mut client = client(&config)?;
    let place = Place::new(&config.export, std::env::temp_dir(), random_id());
    let say: Say = Arc::new(|level, text| match level {
        LogLevel::Error | LogLevel::Warn => warn(text),
        _ => {}
    });
    let mut core = Core::new(destinations, place, say, 1);
    core.adopt_all();
    // The time stands still, so a target that failed once is not asked again.
    const NOW_NS: u64 = 1;
    while let Some(job) = core.next(NOW_NS, false) {
        let result = client.post(&job.request, config.export.timeout);
        core.done(&job, result, NOW_NS);
    }
    let mut is_done = true;
    for status in core.status() {
        note(format!("{}: {}", status.target.name(), status.line()));
        is_done &= status.spooled.0 == 0 && status.counts.lost() == 0;
    }
    let own: Vec<_> = core.status().iter().map(|status| status.target.name()).collect();
    drop(core);
    is_done &= !tell_held(&args.folder, &own);
    tell_others(&args.folder, &own);
    Ok(if is_done { 0 } else { FAILED })
}

/// Says what of our targets is left to processes that are alive; returns whether there is some.
fn tell_held(folder: &Path, own: &[&str]) -> bool {
    let mut held = held_in(folder).unwrap_or_default();
    held.retain(|held| own.contains(&held.target.as_str()));
    for Held { target, count: n, lock } in &held {
        let (files, belong) = (count(*n, "profile"), if *n == 1 { "belongs" } else { "belong" });
        let process = match holder::of_lock(lock) {
            Some(pid) => format!("process {pid}, which is alive and sends"),
            None => "a process that is alive, perhaps in a container, and sends".to_owned(),
        };
        let them = if *n == 1 { "it" } else { "them" };
        warn(format!(
            "{files} for {target} {belong} to {process} {them} itself; once it has ended, `corprof \
             flush` can"
        ));
    }
    !held.is_empty()
}

/// Says what waits in the folder for targets that nobody named.
fn tell_others(folder: &Path, own: &[&str]) {
    // It could be read a moment ago; if not now, nothing is known to wait.
    for (target, n) in waiting_in(folder).unwrap_or_default() {
        if !own.contains(&target.as_str()) {
            let target = table::printable(&target);
            let what = count(n, "profile");
            warn(format!(
                "{what} for {target} still in {folder}: name it, too, with --to {target}",
                folder = folder.display()
            ));
        }
    }
}

/// The settings of the environment, with targets that were typed instead of its own.
///
/// # Errors
/// What makes no sense among these.
pub fn config(to: &[String]) -> anyhow::Result<Config> {
    let vars = std::env::vars_os();
    let mut vars: Vec<(String, String)> = vars
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let mut names = Vec::new();
    for word in to {
        let (name, url) = word.split_once('=').unwrap_or((word, ""));
        let variable = match name {
            "datadog" => "CORPROF_DATADOG_URL",
            "pyroscope" => "CORPROF_PYROSCOPE_URL",
            "otlp" => "CORPROF_OTLP_ENDPOINT",
            "corprof" => "CORPROF_SERVER_URL",
            _ => bail!(
                "--to {word}: the target comes first, datadog, pyroscope, otlp or corprof: \
                 --to pyroscope=http://localhost:4040"
            ),
        };
        names.push(name);
        if !url.is_empty() {
            if let Err(why) = Address::parse(url) {
                let shown = shown(url);
                bail!(
                    "--to {name}={shown} is no address: {why}. Write it as --to \
                     {name}=http://host:port"
                );
            }
            let others = [variable, "CORPROF_OTLP_PROFILES_ENDPOINT"];
            let others = if name == "otlp" { &others[..] } else { &others[..1] };
            vars.retain(|(other, _)| !others.iter().any(|own| config::is_same(own, other)));
            vars.push((variable.to_owned(), url.to_owned()));
        }
    }
    if !names.is_empty() {
        vars.retain(|(name, _)| name != "CORPROF_EXPORT");
        vars.push(("CORPROF_EXPORT".to_owned(), names.join(",")));
    }
    let (config, warnings) = Config::from_vars(vars, "");
    warnings.iter().for_each(warn);
    Ok(config)
}

/// Where the settings send to.
fn targets(config: &Config) -> Result<Vec<Destination>, Failure> {
    let mut found = Vec::new();
    for target in config.export.remote_targets() {
        match destination(target, config, |name| std::env::var(name).ok()) {
            Ok(destination) => found.push(destination),
            Err(why) => warn(format!("no profiles are sent to {}: {why}", target.name())),
        }
    }
    if found.is_empty() {
        let what = "where to? Name a target, such as --to pyroscope=http://localhost:4040, or set \
                    its variables";
        return Err(Failure::new(USAGE, what));
    }
    Ok(found)
}

/// The destination of a target, of settings that come from these variables.
///
/// # Errors
/// Why there is none: with the variable that was set, and its value.
pub fn destination(
    target: Target,
    config: &Config,
    variable: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Destination> {
    match Destination::new(target, config) {
        Some(Err(BadDestination::Address { option, why })) => match variable(option) {
            Some(value) => {
                let shown = shown(&value);
                bail!("{option}={shown} is no address: {why}. Write it as http://host:port")
            }
            None => Err(BadDestination::Address { option, why }.into()),
        },
        Some(destination) => Ok(destination?),
        None => bail!("{} is not sent to", target.name()),
    }
}

/// What was written for an address, without what may be a secret in it: user, password, query.
pub fn shown(url: &str) -> String {
    const CHARS_MAX: usize = 100;
    let url = url.split('?').next().unwrap_or_default();
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let place = match rest.rsplit_once('@') {
        Some((_, place)) => format!("…@{place}"),
        None => rest.to_owned(),
    };
    table::printable(&format!("{scheme}{place}")).chars().take(CHARS_MAX).collect()
}

/// Sends a profile, once.
///
/// # Errors
/// If it can't be made ready, or the proxy's address is none.
pub fn send(
    config: &Config,
    destination: &Destination,
    profile: &Profile,
) -> anyhow::Result<Verdict> {
    let has_service = !config.service.is_empty();
    let identity = Identity::new(config, "", random_id()).of_profile(profile, has_service);
    let ready = parcel(destination.target, &dated(profile), &identity);
    let Some(ready) = ready else { bail!("{} is not sent to", destination.target.name()) };
    let request = destination.request(&ready?);
    let result = client(config)?.post(&request, config.export.timeout);
    Ok(Verdict::of(result, &destination.hidden()))
}

/// A profile that says when it was taken: now, if it says nothing.
fn dated(profile: &Profile) -> Profile {
    let mut profile = profile.clone();
    if profile.period.start_unix_ns == 0 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or(Duration::ZERO);
        profile.period.start_unix_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    }
    profile
}

fn client(config: &Config) -> anyhow::Result<Client> {
    Client::new(&config.export, Cut::default()).map_err(|(option, why)| {
        let value = std::env::var(option).map_or_else(|_| String::new(), |url| shown(&url));
        anyhow!("{option}={value} is no address: {why}")
    })
}
