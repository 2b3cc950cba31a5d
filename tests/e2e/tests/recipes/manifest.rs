//! A Kubernetes deployment, held against Kubernetes' own types.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde_json::Value;

/// Reads a deployment; a field that Kubernetes doesn't know is an error, as with its strict
/// validation.
///
/// # Errors
/// Also if it is no YAML, a key is there twice, or a value is of another type.
pub fn deployment(text: &str) -> Result<Deployment> {
    let written: Value = serde_saphyr::from_str(text).context("no YAML")?;
    let deployment: Deployment = serde_json::from_value(written.clone())?;
    // What it doesn't know it passes over, and does not write again.
    let known = serde_json::to_value(&deployment)?;
    let mut unknown = Vec::new();
    compare(&written, &known, "", &mut unknown);
    ensure!(unknown.is_empty(), "unknown or changed: {unknown:?}");
    Ok(deployment)
}

fn compare(written: &Value, known: &Value, path: &str, unknown: &mut Vec<String>) {
    match (written, known) {
        (Value::Object(written), Value::Object(known)) => {
            for (name, value) in written {
                let path = format!("{path}.{name}");
                match known.get(name) {
                    Some(known) => compare(value, known, &path, unknown),
                    None => unknown.push(path),
                }
            }
        }
        (Value::Array(written), Value::Array(known)) if written.len() == known.len() => {
            for (number, (written, known)) in written.iter().zip(known).enumerate() {
                compare(written, known, &format!("{path}[{number}]"), unknown);
            }
        }
        _ if written == known => {}
        _ => unknown.push(path.to_owned()),
    }
}

/// What its pods are.
///
/// # Errors
/// If it doesn't say.
pub fn pod(deployment: &Deployment) -> Result<&PodSpec> {
    deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()).context("no pod")
}

/// The container of that name.
///
/// # Errors
/// If there is none.
pub fn container<'a>(pod: &'a PodSpec, name: &str) -> Result<&'a Container> {
    let all = pod.init_containers.iter().flatten().chain(&pod.containers);
    all.into_iter().find(|one| one.name == name).with_context(|| format!("no container {name}"))
}

/// What fields of the pod are, as the kubelet would know.
pub type Fields<'a> = &'a [(&'a str, &'a str)];

/// The variables of a container, as the kubelet makes them.
///
/// # Errors
/// If one comes from a field that is not among these.
pub fn variables(container: &Container, fields: Fields) -> Result<Vec<(String, String)>> {
    let mut variables: Vec<(String, String)> = Vec::new();
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(value), None) => expanded(value, &variables),
            (None, Some(source)) => {
                let path = &source.field_ref.as_ref().context("no fieldRef")?.field_path;
                let field = fields.iter().find(|(name, _)| name == path);
                field.with_context(|| format!("no field {path}"))?.1.to_owned()
            }
            _ => anyhow::bail!("{} has no value or two", variable.name),
        };
        ensure!(!variables.iter().any(|(name, _)| *name == variable.name), "{variable:?} twice");
        variables.push((variable.name.clone(), value));
    }
    Ok(variables)
}

/// `$(NAME)` of an earlier variable is its value, `$$` is a dollar.
fn expanded(text: &str, variables: &[(String, String)]) -> String {
    let mut value = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        value.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            value.push('$');
            rest = after;
        } else if let Some((name, after)) =
            rest.strip_prefix('(').and_then(|inner| inner.split_once(')'))
            && let Some((_, found)) = variables.iter().find(|(present, _)| present == name)
        {
            value.push_str(found);
            rest = after;
        } else {
            value.push('$');
        }
    }
    value.push_str(rest);
    value
}

#[test]
fn references_are_put_in() {
    let variables = [("A".to_owned(), "1".to_owned())];
    for (text, expected) in
        [("/x/$(A)/y", "/x/1/y"), ("$(B)", "$(B)"), ("$$(A)$", "$(A)$"), ("${A}", "${A}"), ("", "")]
    {
        assert_eq!(expanded(text, &variables), expected);
    }
}

#[test]
fn what_kubernetes_does_not_know_is_refused() -> Result<()> {
    let right = "apiVersion: apps/v1\nkind: Deployment\nspec:\n  selector: {}\n  template:\n    \
                 spec:\n      containers:\n        - name: a\n";
    deployment(right)?;
    for wrong in [
        right.replace("- name", "- nmae"),
        format!("{right}          readOnlyRootFilesystem: true\n"),
        format!("{right}          tty: maybe\n"),
        format!("{right}        - name: [1]\n"),
        right.replace("apps/v1", "v1"),
        format!("{right}kind: Deployment\n"),
        right.replace("kind: ", "kind "),
    ] {
        ensure!(deployment(&wrong).is_err(), "{wrong}");
    }
    Ok(())
}
