//! The Dockerfiles.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::dockerfile::{Stage, stages};
use crate::sandbox::Sandbox;
use crate::service::{self, USER, Variables};
use crate::{env, product, recipe};

/// Where the recipes have corprof.
const PLACE: &str = "/opt/corprof";

fn last_stage(name: &str) -> Result<Stage> {
    stages(&recipe(name)?)?.pop().context("no stage")
}

/// The names of the files that the image `corprof` has in its folder.
pub fn image_files() -> Result<Vec<String>> {
    let stage = last_stage("docker/corprof.Dockerfile")?;
    let mut names = Vec::new();
    for copy in stage.all("COPY") {
        let mut words = copy.split_whitespace().filter(|word| !word.starts_with("--"));
        let to = words.next_back().context("no place")?;
        ensure!(to == format!("{PLACE}/"), "{copy}");
        names.extend(words.filter_map(|from| from.rsplit('/').next()).map(str::to_owned));
    }
    Ok(names)
}

#[test]
fn variables_are_those_of_env() -> Result<()> {
    let stage = last_stage("docker/Dockerfile")?;
    let printed = env("--docker", &["--service", "orders"])?;
    let comments: String = printed.lines().filter(|line| line.starts_with('#')).collect();
    let printed = stages(&format!("FROM x\n{printed}"))?.pop().context("nothing")?;
    ensure!(stage.only("ENV")? == printed.only("ENV")?, "{printed:?}");
    let hook = ("DOTNET_STARTUP_HOOKS".to_owned(), "/a.dll".to_owned());
    for image in [&[][..], &[hook]] {
        ensure!(stage.variables(image)? == printed.variables(image)?, "{image:?}");
    }
    // The folder is the volume, and the files are copied to where the variables have them.
    let volume = stage.only("VOLUME")?;
    ensure!(comments.contains(&format!("{volume:?}")), "{comments}");
    ensure!(stage.all("COPY").contains(&&*format!("--from=corprof {PLACE} {PLACE}")));
    let names = image_files()?;
    for (name, value) in stage.variables(&[])? {
        if let Some(file) = value.strip_prefix(&format!("{PLACE}/")) {
            ensure!(names.iter().any(|name| name == file), "{name}: {file} in {names:?}");
        }
        if name == "CORPROF_OUTPUT_DIR" {
            ensure!(value == volume, "{value}");
        }
    }
    Ok(())
}

#[test]
fn the_user_is_not_root_and_owns_the_volume() -> Result<()> {
    let stage = last_stage("docker/Dockerfile")?;
    ensure!(stage.only("USER")? == "$APP_UID");
    let position = |keyword: &str| stage.instructions.iter().position(|(k, _)| k == keyword);
    // After USER nothing could be made for it.
    ensure!(position("RUN") < position("USER"), "{stage:?}");
    let image = last_stage("docker/corprof.Dockerfile")?;
    ensure!(image.only("USER")? == format!("{USER}:{USER}"));
    let entry: Vec<String> = serde_json::from_str(stage.only("ENTRYPOINT")?)?;
    ensure!(entry.first().is_some_and(|program| program == "dotnet"), "{entry:?}");
    Ok(())
}

/// Each image that another stage copies from, or begins with, is there or named by a version.
#[test]
fn stages_are_there_and_images_have_versions() -> Result<()> {
    for name in ["docker/Dockerfile", "docker/corprof.Dockerfile"] {
        let stages = stages(&recipe(name)?)?;
        for stage in &stages {
            ensure!(stage.from.contains(':'), "{name}: {}", stage.from);
            for copy in stage.all("COPY") {
                let Some(from) = copy.split_whitespace().find_map(|w| w.strip_prefix("--from="))
                else {
                    continue;
                };
                ensure!(stages.iter().any(|s| s.name.as_deref() == Some(from)), "{name}: {copy}");
            }
        }
    }
    let version = format!("corprof:{}", env!("CARGO_PKG_VERSION"));
    let used = &stages(&recipe("docker/Dockerfile")?)?;
    ensure!(used.iter().any(|stage| stage.from == version), "not {version}");
    ensure!(recipe("docker/corprof.Dockerfile")?.contains(&version), "not {version}");
    let rust = stages(&recipe("docker/corprof.Dockerfile")?)?;
    let rust = rust.first().context("no stage")?;
    let wanted = format!("rust:{}-bookworm", env!("CARGO_PKG_RUST_VERSION"));
    ensure!(rust.from == wanted, "{} is not {wanted}", rust.from);
    Ok(())
}

/// The image, as its Dockerfile makes it, run as the comment in it says.
fn image(test: &str) -> Result<Option<(Sandbox, Vec<String>, Variables)>> {
    let Some(mut sandbox) = Sandbox::new(test, USER)? else { return Ok(None) };
    let Some((program, mut variables)) = service::program(test, &mut sandbox)? else {
        return Ok(None);
    };
    let stage = last_stage("docker/Dockerfile")?;
    for name in image_files()? {
        sandbox.mount(&product(&name)?, &format!("{PLACE}/{name}"), true);
    }
    // The volume's folder is made by the recipe itself, below one that outlives the container.
    let volume = stage.only("VOLUME")?;
    let (parent, _) = volume.rsplit_once('/').context("no folder")?;
    let kept = sandbox.folder("volume")?;
    sandbox.mount(&kept, parent, false);
    sandbox.prepare(&format!("APP_UID={USER}\n{}", stage.only("RUN")?));
    variables = stage.variables(&variables)?;
    Ok(Some((sandbox, program, variables)))
}

#[test]
fn an_image_made_so_is_profiled() -> Result<()> {
    let Some((mut sandbox, program, variables)) = image("recipe-docker")? else { return Ok(()) };
    sandbox.mount(&sandbox.folder("tmp")?, "/tmp", false).prepare("chmod 1777 /tmp");
    let start = || service::serve(sandbox.command(&variables, &program), &sandbox.folder("")?);
    let volume = sandbox.folder("volume")?.join("corprof");
    service::check(&start()?, &volume, "orders", USER)?;
    // What comes with the image works in it, for the same user.
    let inside = |arguments: &[&str]| -> Result<String> {
        let words = [&["/opt/corprof/corprof"], arguments].concat();
        let output = sandbox.command(&variables, words).output()?;
        ensure!(output.status.success(), "{arguments:?}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    };
    let top = inside(&["top", "/var/lib/corprof"])?;
    ensure!(top.contains("Work.Multiply("), "{top}");
    inside(&["doctor"])?;
    // A second start is process 1, too, and leaves the first one's profiles as they are.
    let contents = |files: Vec<PathBuf>| -> Result<BTreeMap<PathBuf, Vec<u8>>> {
        files.into_iter().map(|file| Ok((file.clone(), fs::read(file)?))).collect()
    };
    let before = contents(service::files(&volume)?)?;
    start()?;
    let after = contents(service::files(&volume)?)?;
    ensure!(after.len() > before.len(), "{} files", after.len());
    ensure!(before.iter().all(|(file, bytes)| after.get(file) == Some(bytes)));
    Ok(())
}

/// The sockets are in `/tmp`; profiles need none.
#[test]
fn profiles_need_no_temporary_folder() -> Result<()> {
    let Some((sandbox, program, variables)) = image("recipe-no-tmp")? else { return Ok(()) };
    service::serve(sandbox.command(&variables, &program), &sandbox.folder("")?)?;
    ensure!(!service::files(&sandbox.folder("volume")?.join("corprof"))?.is_empty());
    Ok(())
}

/// What the volume is there for: without it nothing can be written, and the program runs on.
#[test]
fn without_the_volume_there_is_no_profile() -> Result<()> {
    let Some((mut sandbox, program, variables)) = image("recipe-no-volume")? else {
        return Ok(());
    };
    sandbox.prepare("rmdir /var/lib/corprof");
    let served = service::serve(sandbox.command(&variables, &program), &sandbox.folder("")?)?;
    ensure!(served.errors.contains("could not be written to /var/lib/corprof"), "{served:?}");
    ensure!(fs::read_dir(sandbox.folder("volume")?)?.next().is_none());
    Ok(())
}
