//! What senders push, told apart, read and checked: nothing goes on that is not a whole profile.
//!
//! - `POST /v1/push?service=…`: our own, a pprof file with all that there is in it
//! - `POST /push.v1.PusherService/Push`: Pyroscope's, a protobuf message
//! - `POST /v1development/profiles`: OpenTelemetry's, OTLP over HTTP with protobuf
//! - `POST /ingest?name=…`: Pyroscope's older one, a pprof file or a form with one in it

use std::borrow::Cow;
use std::io::Read as _;

use flate2::read::MultiGzDecoder;
use profile::Profile;
use profile::read::{DecodeError, OtlpProfile, decode_within, otlp_request, push_request};
use sha2::{Digest as _, Sha256};

use crate::http::{Request, Response};
use crate::store::Meta;

const OWN: &str = "/v1/push";
const PUSH: &str = "/push.v1.PusherService/Push";
const INGEST: &str = "/ingest";
const OTLP: &str = "/v1development/profiles";
/// The header that says how many profiles were there already.
const REPEATED: &str = "Corprof-Repeated";
/// Bytes of a body, as it is sent.
pub const BODY_BYTES_MAX: usize = 16 << 20;
/// Bytes of a body, or of all the profiles in it, once they are inflated.
const INFLATED_BYTES_MAX: usize = 64 << 20;
/// Bytes of what is between the parts of a form, as its standard has it.
const BOUNDARY_BYTES_MAX: usize = 70;
/// A label's name or value in bytes; longer ones are refused.
const LABEL_BYTES_MAX: usize = 1 << 10;
/// The service of profiles that `corprof doctor` sends to see whether they are taken.
pub const PROBE: &str = "corprof-doctor";
/// Labels of a profile.
const LABELS_MAX: usize = 32;
/// How far a sender's clock may be ahead, in seconds.
const AHEAD_SECONDS_MAX: u64 = 3_600;

/// A profile that was pushed.
#[derive(Debug)]
pub struct Upload {
    /// Who sent it, and of which time it is.
    pub meta: Meta,
    /// As it is kept.
    pub bytes: Vec<u8>,
    /// What it says.
    pub profile: Profile,
}

impl Upload {
    /// Whether it only tries whether pushes are taken. It is not kept: a service of that name would
    /// stand among the real ones, and the time of the try would be the latest that there is
    /// anything of, where pages begin.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.meta.service == PROBE
    }
}

/// Why a push is not taken; nothing of it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP's number.
    pub status: u16,
    /// For a person.
    pub text: String,
}

impl Refusal {
    fn new(status: u16, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// The body is not what is sent there.
    fn damaged(what: &str, error: &DecodeError) -> Self {
        Self::new(400, format!("this is no {what}, or a damaged one: {}", error.damage()))
    }

    fn too_large() -> Self {
        let text = format!(
            "the body is larger than {} MiB once it is inflated; send less at once",
            INFLATED_BYTES_MAX >> 20
        );
        Self::new(413, text)
    }
}

/// Whether a path is one that senders push to.
#[must_use]
pub fn is_push(path: &str) -> bool {
    [OWN, PUSH, INGEST, OTLP].contains(&path)
}

/// What is said once a push is taken: the empty answer of its protocol, and in a header how many of
/// its profiles were there already.
#[must_use]
pub fn taken(path: &str, repeated: usize) -> Response {
    let response = match path {
        PUSH => Response::of("application/proto", ""),
        OTLP => Response::of("application/x-protobuf", ""),
        _ => Response::json("{}"),
    };
    match repeated {
        0 => response,
        _ => response.with(REPEATED, repeated.to_string()),
    }
}

/// The profiles of a push, all of them or none; `now` is in seconds since 1970.
///
/// # Errors
/// What is wrong with it.
pub fn take(request: &Request, now: u64) -> Result<Vec<Upload>, Refusal> {
    let body = plain_body(request)?;
    let uploads = match request.path.as_str() {
        OWN => vec![own(request, body.into_owned(), now)?],
        INGEST => vec![ingest(request, &body, now)?],
        OTLP => otlp(request, &body, now)?,
        _ => push(&body, now)?,
    };
    if uploads.is_empty() {
        return Err(Refusal::new(400, "the request has no profile in it"));
    }
    Ok(uploads)
}

/// The body, inflated if the sender says that it is gzip.
fn plain_body(request: &Request) -> Result<Cow<'_, [u8]>, Refusal> {
    match request.header("content-encoding") {
        None | Some("identity" | "") => Ok(Cow::Borrowed(&request.body)),
        Some("gzip") => {
            let mut plain = Vec::new();
            let bound = INFLATED_BYTES_MAX as u64 + 1;
            let mut body = MultiGzDecoder::new(request.body.as_slice()).take(bound);
            let read = body.read_to_end(&mut plain);
            read.map_err(|error| Refusal::new(400, format!("the body is no gzip: {error}")))?;
            if plain.len() > INFLATED_BYTES_MAX {
                return Err(Refusal::too_large());
            }
            Ok(Cow::Owned(plain))
        }
        Some(other) => {
            Err(Refusal::new(415, format!("Content-Encoding {other} is not known; send gzip")))
        }
    }
}

/// What a sender tells of itself.
#[derive(Default)]
struct Told {
    service: String,
    version: String,
    instance: String,
    labels: Vec<(String, String)>,
    /// Whether the profile is written as for Pyroscope.
    is_series: bool,
}

fn own(request: &Request, body: Vec<u8>, now: u64) -> Result<Upload, Refusal> {
    let mut told = Told::default();
    for (name, value) in &request.query {
        match name.as_str() {
            "service" => told.service.clone_from(value),
            "version" => told.version.clone_from(value),
            "instance" => told.instance.clone_from(value),
            _ => {
                if let Some(name) = name.strip_prefix("label.") {
                    told.labels.push((name.to_owned(), value.clone()));
                }
            }
        }
    }
    upload(told, body, now, &mut { INFLATED_BYTES_MAX })
}

fn push(body: &[u8], now: u64) -> Result<Vec<Upload>, Refusal> {
    let wrong = |error| {
        Refusal::damaged("push request of Pyroscope's (protobuf, push.v1.PushRequest)", &error)
    };
    let mut uploads = Vec::new();
    let mut room = INFLATED_BYTES_MAX;
    for series in push_request(body).map_err(wrong)? {
        for profile in &series.profiles {
            uploads.push(upload(of_labels(&series.labels), profile.to_vec(), now, &mut room)?);
        }
    }
    Ok(uploads)
}

fn otlp(request: &Request, body: &[u8], now: u64) -> Result<Vec<Upload>, Refusal> {
    if request.header("content-type").is_some_and(|kind| kind.contains("json")) {
        return Err(Refusal::new(415, "OTLP is taken as protobuf; set the exporter's encoding so"));
    }
    let wrong = |error| {
        let what = "OTLP request of profiles (protobuf, v1development of opentelemetry-proto 1.10)";
        Refusal::damaged(what, &error)
    };
    let mut uploads = Vec::new();
    for OtlpProfile { resource, profile } in otlp_request(body).map_err(wrong)? {
        let mut told = Told::default();
        for (name, value) in resource {
            match name.as_str() {
                "service.name" => told.service = value,
                "service.version" => told.version = value,
                "service.instance.id" => told.instance = value,
                "process.pid" if told.instance.is_empty() => told.instance = value,
                "deployment.environment.name" | "deployment.environment" => {
                    told.labels.push(("environment".to_owned(), value));
                }
                "host.name" => told.labels.push(("host".to_owned(), value)),
                _ => {}
            }
        }
        let written = profile::pprof::write(&profile, Vec::new());
        let bytes = written.map_err(|error| Refusal::new(400, error.to_string()))?;
        uploads.push(checked(told, bytes, profile, now)?);
    }
    Ok(uploads)
}

/// Who sends, by labels as Pyroscope's senders name them.
fn of_labels(labels: &[(String, String)]) -> Told {
    let mut told = Told::default();
    for (name, value) in labels {
        match name.as_str() {
            "service_name" => told.service.clone_from(value),
            "version" | "service_version" => told.version.clone_from(value),
            "hostname" | "instance" | "service_instance_id" => told.instance.clone_from(value),
            _ if name.starts_with("__") || name == "pyroscope_spy" => {}
            _ => told.labels.push((name.clone(), value.clone())),
        }
    }
    told
}

fn ingest(request: &Request, body: &[u8], now: u64) -> Result<Upload, Refusal> {
    let name = request.part("name").unwrap_or_default();
    let (service, labels) = name.split_once('{').unwrap_or((name, ""));
    let pairs = labels.trim_end_matches('}').split(',').filter_map(|pair| pair.split_once('='));
    let labels: Vec<_> = pairs
        .map(|(name, value)| (name.trim().to_owned(), value.trim().trim_matches('"').to_owned()))
        .collect();
    let mut told = of_labels(&labels);
    if told.service.is_empty() {
        // Older senders add the type to the name: `shop.cpu`.
        told.service = service.trim_end_matches(".cpu").to_owned();
    }
    let boundary = request.header("content-type").and_then(boundary);
    let profile = match &boundary {
        Some(boundary) => part(body, boundary, "profile")
            .ok_or_else(|| Refusal::new(400, "the form has no part named profile"))?,
        None => body,
    };
    upload(told, profile.to_vec(), now, &mut { INFLATED_BYTES_MAX })
}

/// The boundary of a form.
fn boundary(content_type: &str) -> Option<String> {
    let rest = content_type.strip_prefix("multipart/form-data")?;
    let text = rest.split(';').find_map(|part| part.trim().strip_prefix("boundary="))?;
    // A long one would be looked for for long.
    let text = Some(text.trim_matches('"')).filter(|text| text.len() <= BOUNDARY_BYTES_MAX)?;
    Some(format!("--{text}"))
}

/// The contents of a part of a form.
fn part<'a>(body: &'a [u8], boundary: &str, name: &str) -> Option<&'a [u8]> {
    let find =
        |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|window| window == what);
    let wanted = format!("name=\"{name}\"");
    let mut rest = body.get(find(body, boundary.as_bytes())? + boundary.len()..)?;
    loop {
        let end = find(rest, boundary.as_bytes())?;
        let (part, after) = rest.split_at_checked(end)?;
        let head = find(part, b"\r\n\r\n")?;
        if find(part.get(..head)?, wanted.as_bytes()).is_some() {
            return part.get(head + 4..)?.strip_suffix(b"\r\n");
        }
        rest = after.get(boundary.len()..)?;
    }
}

/// What a profile is of. Files of ours say it: a period of a process, in one of the formats that it
/// is sent in. Of others it is their bytes, with the instance: who sends again because an answer
/// was lost sends the same. Of those that say when they were taken no other has these bytes; of the
/// rest, version and labels may be what tells two apart.
fn origin(told: &Told, bytes: &[u8], profile: &Profile, begin_us: u64) -> String {
    match &profile.report {
        Some(report) if !report.instance.is_empty() => {
            let format = if told.is_series { "pyroscope" } else { "file" };
            format!("{format} {} {} {begin_us}", report.instance, report.seq)
        }
        _ => {
            // By a sum that can be made to order one could have another's profile taken for known.
            let mut sum = Sha256::new();
            let mut texts = vec![&told.instance];
            if profile.period.start_unix_ns == 0 {
                texts.push(&told.version);
                texts.extend(told.labels.iter().flat_map(|(name, value)| [name, value]));
            }
            for text in texts {
                sum.update(text.as_bytes());
                sum.update([0]);
            }
            sum.update(bytes);
            let digits =
                sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            format!("bytes {digits}")
        }
    }
}

/// Reads and checks a profile, of which so many bytes may come.
fn upload(mut told: Told, bytes: Vec<u8>, now: u64, room: &mut usize) -> Result<Upload, Refusal> {
    let decoded = decode_within(&bytes, *room).map_err(|error| match error {
        DecodeError::TooLarge { .. } => Refusal::too_large(),
        error => Refusal::damaged("profile (pprof, plain or gzip)", &error),
    })?;
    *room = room.saturating_sub(decoded.plain_bytes);
    told.is_series = decoded.is_series;
    checked(told, bytes, decoded.profile, now)
}

fn checked(told: Told, bytes: Vec<u8>, profile: Profile, now: u64) -> Result<Upload, Refusal> {
    let report = profile.report.as_ref();
    let or = |told: String, other: Option<String>| {
        if told.is_empty() { other.unwrap_or_default() } else { told }
    };
    let service = or(told.service.clone(), report.map(|report| report.service.clone()));
    if service.is_empty() {
        return Err(Refusal::new(
            400,
            "neither the profile nor its sender says which service it is of: add ?service=NAME, \
             the label service_name, or the attribute service.name",
        ));
    }
    let instance = or(told.instance.clone(), report.map(|report| report.pid.to_string()));
    let version = or(told.version.clone(), report.map(|report| report.service_version.clone()));
    let labels = told.labels.iter().flat_map(|(name, value)| [name, value]);
    let own_instance = report.map(|report| &report.instance);
    let told_texts = [&service, &version, &instance].into_iter().chain(own_instance);
    let texts: Vec<&String> = told_texts.chain(labels).collect();
    if told.labels.len() > LABELS_MAX || texts.iter().any(|text| text.len() > LABEL_BYTES_MAX) {
        let text = format!(
            "there are too many labels ({LABELS_MAX} are taken), or a text is too long \
             ({LABEL_BYTES_MAX} bytes are taken)"
        );
        return Err(Refusal::new(400, text));
    }
    if let Some(text) = texts.iter().find(|text| text.contains(char::is_control)) {
        let text = format!(
            "{text:?} has control characters: a service, version, instance or label can't; name \
             it otherwise"
        );
        return Err(Refusal::new(400, text));
    }
    let duration_us = profile.period.duration_ns / 1_000;
    let begin_us = match profile.period.start_unix_ns / 1_000 {
        0 => (now * 1_000_000).saturating_sub(duration_us),
        begin_us => begin_us,
    };
    let end = begin_us.saturating_add(duration_us) / 1_000_000;
    if end > now + AHEAD_SECONDS_MAX {
        return Err(Refusal::new(400, "the profile is of the future; see the sender's clock"));
    }
    let origin = origin(&told, &bytes, &profile, begin_us);
    let labels = told.labels;
    let meta =
        Meta { service, version, instance, labels, begin_us, duration_us, received: now, origin };
    Ok(Upload { meta, bytes, profile })
}
