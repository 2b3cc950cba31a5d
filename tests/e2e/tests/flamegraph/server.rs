//! The page of `corprof serve`: a service, its versions, and an older time.

use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use e2e::built;
use profile::Profile;
use serde_json::{Value, json};

use crate::http::Running;
use crate::made::made;
use crate::{answer, browser, pictures, script};

/// Long enough to be guessed by nobody.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A profile that began so long ago, in minutes, as an agent writes it.
fn recent(mut profile: Profile, minutes: u64) -> Result<(u64, Vec<u8>)> {
    let begin = SystemTime::now() - Duration::from_secs(60 * minutes);
    profile.period.start_unix_ns = begin.duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    let bytes = profile::pprof::write(&profile, Vec::new())?;
    Ok((profile.total().cpu_ns, bytes))
}

/// The same profile with one function that takes much more; and which.
fn slower(mut profile: Profile) -> Result<(Profile, String)> {
    let samples = &mut profile.samples;
    let sample = samples.iter_mut().find(|sample| sample.values.cpu_ns > 0).context("idle")?;
    sample.values.count += 40_000;
    sample.values.cpu_ns += 400_000_000_000;
    let stack = sample.stack;
    let leaf = profile.stack(stack).next().and_then(|frame| profile.function_of(frame));
    let name = profile.text(leaf.context("no function")?.name).to_owned();
    Ok((profile, name))
}

/// Whether the list has all files, and four that differ in their names.
fn can_be_told(files: &[Value]) -> Result<()> {
    let mut distinct: Vec<&str> = files.iter().filter_map(Value::as_str).collect();
    distinct.sort_unstable();
    distinct.dedup();
    ensure!(files.len() == 5 && distinct.len() == 5, "all, and four that can be told: {files:?}");
    Ok(())
}

#[test]
fn a_server_is_looked_at() -> Result<()> {
    let Some(browser) = browser("serve")? else { return Ok(()) };
    let folder = pictures("serve")?;
    let token = folder.join("token");
    fs::write(&token, TOKEN)?;
    let mut command = Command::new(&built()?.corprof);
    command.args(["serve", "--listen", "127.0.0.1:0", "--token-file"]).arg(&token);
    let server = Running::start({
        command.arg("--data").arg(folder.join("data"));
        command
    });
    let push = |query: &str, minutes: u64, profile: Profile| -> Result<u64> {
        let (cpu_ns, bytes) = recent(profile, minutes)?;
        let headers = format!("Authorization: Bearer {TOKEN}\r\n");
        let path = format!("/v1/push?{query}");
        let answer = crate::http::ask(&server.host, "POST", &path, &headers, &bytes);
        let answer = answer.context("no answer")?;
        ensure!(answer.status == 200, "{}", answer.text());
        Ok(cpu_ns)
    };
    let (slow, name) = slower(made(8, 300))?;
    let before = push("service=shop&version=1.0&instance=a", 50, made(8, 300))?;
    let after = push("service=shop&version=2.0&instance=b", 5, slow)?;
    let mut other = push("service=other&version=1.0", 5, made(9, 100))?;
    // The same process again.
    other += push("service=other&version=1.0", 4, made(9, 100))?;
    // The server holds two hours.
    let old = push("service=shop&version=0.9", 300, made(10, 100))?;
    let (late_ns, bytes) = recent(made(11, 50), 2)?;
    let late = folder.join("late.pb.gz");
    fs::write(&late, bytes)?;

    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let [from, to] = [310, 240].map(|ago| now - Duration::from_secs(60 * ago));
    let script = script("serve.mjs");
    let mut command = browser.script(&script);
    command.arg(format!("http://{}/?token={TOKEN}", server.host)).arg(&folder);
    command.args(["shop", "1.0", "2.0"]).arg(&late);
    command.args([from.as_millis().to_string(), to.as_millis().to_string()]);
    let seen = answer(command)?;

    ensure!(seen["complaints"] == json!([]), "{}", seen["complaints"]);
    ensure!(!seen["url"].as_str().unwrap_or("token").contains("token"), "{}", seen["url"]);
    let is = |what: &str, expected: &Value| {
        ensure!(&seen[what] == expected, "{what} is {}, not {expected}", seen[what]);
        Ok(())
    };
    is("all", &json!(before + after + other))?;
    is("services", &json!(["", "other", "shop"]))?;
    can_be_told(seen["names"].as_array().context("no list of files")?)?;
    is("service", &json!(before + after))?;
    is("before", &json!(before))?;
    is("after", &json!(after))?;
    let slower = seen["slower"].as_array().context("nothing was compared")?;
    ensure!(slower.contains(&json!(name)), "{name} is not among what got slower: {slower:?}");
    let sides = ["version 1.0", "version 2.0"].into_iter().enumerate();
    for (at, side) in sides {
        let text = seen["sides"][at].as_str().unwrap_or_default();
        ensure!(text.contains(side) && text.contains("service shop"), "{}", seen["sides"]);
    }
    is("files", &json!(2))?;
    is("threads", &seen["threadsOfService"])?;
    is("backwards", &json!("that ends before it begins"))?;
    is("nothing", &json!("there are no profiles of that time"))?;
    is("fieldsOfNothing", &json!(true))?;
    is("fromNothing", &json!(before + after + late_ns + other))?;
    is("pushed", &json!(200))?;
    is("late", &json!(after + late_ns))?;
    is("old", &json!(old))?;
    is("keepsTime", &json!(true))?;
    is("oldVersions", &json!(["", "0.9"]))?;
    is("oldService", &json!("shop"))?;
    is("latest", &json!(before + after + late_ns))
}
