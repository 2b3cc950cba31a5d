//! The Kubernetes manifest.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, PodSpec};

use crate::docker::image_files;
use crate::manifest::{self, Fields, container, pod};
use crate::sandbox::Sandbox;
use crate::service::{self, USER};
use crate::{env_variables, product, recipe};

/// What the kubelet knows of the pod.
const FIELDS: Fields =
    &[("metadata.name", "orders-7"), ("metadata.labels['app.kubernetes.io/name']", "orders")];

fn deployment() -> Result<Deployment> {
    manifest::deployment(&recipe("kubernetes/deployment.yaml")?)
}

fn all(pod: &PodSpec) -> impl Iterator<Item = &Container> {
    pod.init_containers.iter().flatten().chain(&pod.containers)
}

#[test]
fn variables_are_those_of_env() -> Result<()> {
    let deployment = deployment()?;
    let variables = manifest::variables(container(pod(&deployment)?, "orders")?, FIELDS)?;
    let printed = env_variables(&["--out", "/var/lib/corprof/orders-7"])?;
    let own = ["POD_NAME", "OTEL_SERVICE_NAME"];
    let (own, corprof): (Vec<_>, Vec<_>) =
        variables.into_iter().partition(|(name, _)| own.contains(&&**name));
    ensure!(corprof == printed, "{corprof:?} is not {printed:?}");
    ensure!(own.len() == 2, "{own:?}");
    // The folder is a folder of what `env` prints.
    let default = env_variables(&[])?;
    let (_, folder) = default.iter().find(|(n, _)| n == "CORPROF_OUTPUT_DIR").context("none")?;
    ensure!(printed.contains(&("CORPROF_OUTPUT_DIR".to_owned(), format!("{folder}/orders-7"))));
    // By this variable the agent knows the service.
    let (config, warnings) = config::Config::from_vars(own, "other");
    ensure!(config.service == "orders" && warnings.is_empty(), "{config:?} {warnings:?}");
    Ok(())
}

/// The Pod Security Standard `restricted`, and a root that is read-only.
#[test]
fn all_containers_are_restricted() -> Result<()> {
    let deployment = deployment()?;
    let pod = pod(&deployment)?;
    let security = pod.security_context.as_ref().context("no securityContext")?;
    ensure!(security.run_as_non_root == Some(true) && security.run_as_user == Some(USER.into()));
    let seccomp = security.seccomp_profile.as_ref().context("no seccompProfile")?;
    ensure!(seccomp.type_ == "RuntimeDefault");
    for container in all(pod) {
        let name = &container.name;
        let security = container.security_context.as_ref().context(name.clone())?;
        ensure!(security.allow_privilege_escalation == Some(false), "{name}");
        ensure!(security.read_only_root_filesystem == Some(true), "{name}");
        ensure!(security.privileged.is_none() && security.run_as_user.is_none(), "{name}");
        let capabilities = security.capabilities.as_ref().context(name.clone())?;
        ensure!(capabilities.drop.as_deref() == Some(&["ALL".to_owned()]), "{name}");
        ensure!(capabilities.add.is_none(), "{name}");
        let limits = container.resources.as_ref().and_then(|r| r.limits.as_ref());
        ensure!(limits.is_some_and(|limits| limits.contains_key("memory")), "{name}");
    }
    for volume in pod.volumes.iter().flatten() {
        ensure!(volume.empty_dir.is_some(), "{volume:?}");
    }
    Ok(())
}

#[test]
fn names_fit_together() -> Result<()> {
    let deployment = deployment()?;
    let pod = pod(&deployment)?;
    let volumes: Vec<_> = pod.volumes.iter().flatten().map(|volume| &volume.name).collect();
    for container in all(pod) {
        for mount in container.volume_mounts.iter().flatten() {
            ensure!(volumes.contains(&&mount.name), "{}: {}", container.name, mount.name);
        }
    }
    let spec = deployment.spec.as_ref().context("no spec")?;
    let labels = spec.template.metadata.as_ref().and_then(|m| m.labels.as_ref());
    ensure!(spec.selector.match_labels.as_ref() == labels, "{labels:?}");
    let version = format!("corprof:{}", env!("CARGO_PKG_VERSION"));
    for container in pod.init_containers.iter().flatten() {
        ensure!(container.image.as_ref() == Some(&version), "{:?}", container.image);
    }
    Ok(())
}

/// A container, with the pod's volumes as folders beside it.
fn sandbox(test: &str, pod: &Sandbox, container: &Container) -> Result<Option<Sandbox>> {
    let Some(mut sandbox) = Sandbox::new(test, USER)? else { return Ok(None) };
    for mount in container.volume_mounts.iter().flatten() {
        let folder = volume(pod, &mount.name)?;
        sandbox.mount(&folder, &mount.mount_path, mount.read_only == Some(true));
    }
    Ok(Some(sandbox))
}

/// The folder of an `emptyDir`: root's, and writable for all.
fn volume(pod: &Sandbox, name: &str) -> Result<PathBuf> {
    let folder = pod.folder(&format!("volume-{name}"))?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
    Ok(folder)
}

fn words(container: &Container) -> Vec<String> {
    let command = container.command.iter().flatten();
    command.chain(container.args.iter().flatten()).cloned().collect()
}

#[test]
fn a_pod_is_profiled() -> Result<()> {
    let test = "recipe-kubernetes";
    let deployment = deployment()?;
    let spec = pod(&deployment)?;
    let Some(pod) = Sandbox::new(test, USER)? else { return Ok(()) };

    let init = container(spec, "corprof")?;
    let Some(mut inner) = sandbox(&format!("{test}-init"), &pod, init)? else { return Ok(()) };
    for name in image_files()? {
        inner.mount(&product(&name)?, &format!("/opt/corprof/{name}"), true);
    }
    let output = inner.command(&[], words(init)).output()?;
    ensure!(output.status.success(), "{output:?}");

    let app = container(spec, "orders")?;
    let Some(mut inner) = sandbox(&format!("{test}-app"), &pod, app)? else { return Ok(()) };
    let Some((program, mut variables)) = service::program(test, &mut inner)? else {
        return Ok(());
    };
    variables.extend(manifest::variables(app, FIELDS)?);
    let served = service::serve(inner.command(&variables, &program), &inner.folder("")?)?;
    let profiles = volume(&pod, "profiles")?.join("orders-7");
    service::check(&served, &profiles, "orders", USER)
}

/// The container that cleans up removes what is older than a day, and nothing else.
#[test]
fn old_profiles_are_removed() -> Result<()> {
    let test = "recipe-clean";
    let deployment = deployment()?;
    let clean = container(pod(&deployment)?, "corprof-clean")?;
    let Some(pod) = Sandbox::new(test, USER)? else { return Ok(()) };
    let Some(inner) = sandbox(&format!("{test}-inner"), &pod, clean)? else { return Ok(()) };
    let folder = volume(&pod, "profiles")?.join("orders-7");
    fs::create_dir_all(&folder)?;
    let day = Duration::from_secs(24 * 3600);
    let hour = Duration::from_secs(3600);
    for (name, age) in
        [("old.pb.gz", day + hour), ("new.pb.gz", day - hour), ("other.txt", day + hour)]
    {
        fs::File::create(folder.join(name))?.set_modified(SystemTime::now() - age)?;
    }
    own(&folder)?;
    // Once, instead of again and again.
    let script = words(clean).pop().context("no script")?.replace("sleep 600 & wait", "exit");
    ensure!(script.contains("exit\n"), "{script}");
    let output = inner.command(&[], ["sh", "-ec", &script]).output()?;
    ensure!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let mut left: Vec<_> = fs::read_dir(&folder)?.flatten().map(|e| e.file_name()).collect();
    left.sort();
    ensure!(left == ["new.pb.gz", "other.txt"], "{left:?}");
    Ok(())
}

fn own(folder: &std::path::Path) -> Result<()> {
    let status =
        Command::new("chown").arg("-R").arg(format!("{USER}:{USER}")).arg(folder).status()?;
    ensure!(status.success(), "chown: {status}");
    Ok(())
}
