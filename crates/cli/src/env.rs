//! `corprof env`: the variables to set, in the form of a shell, a Dockerfile or Kubernetes.

use std::io::Write as _;

use config::agent_variables;

use crate::agent;
use crate::args::EnvArgs;
use crate::failure::Failure;

/// Where images usually have the agent.
const IMAGE_AGENT: &str = "/opt/corprof/libcorprof.so";
/// Where profiles go if nothing is said: a folder that exists on every machine.
const OUTPUT_DIR: &str = "/tmp/corprof";

/// Runs the command.
pub fn env(args: &EnvArgs) -> Result<u8, Failure> {
    let agent = match &args.agent {
        // As given: it is the path where the program will run, which may not be here.
        Some(path) => path.to_string_lossy().into_owned(),
        None if args.docker || args.k8s => IMAGE_AGENT.to_owned(),
        None => agent::find(None)?.to_string_lossy().into_owned(),
    };
    let mut variables: Vec<(&str, String)> = agent_variables(&agent).into();
    if args.options.get("CORPROF_OUTPUT_DIR").is_none() {
        variables.push(("CORPROF_OUTPUT_DIR", OUTPUT_DIR.to_owned()));
    }
    for (option, value) in &args.options.given {
        variables.push((option.var, value.clone()));
    }
    let text = if args.docker {
        docker(&variables)
    } else if args.k8s {
        kubernetes(&variables)
    } else {
        shell(&variables)
    };
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(0)
}

fn shell(variables: &[(&str, String)]) -> String {
    let line = |(name, value): &(&str, String)| {
        // Inside single quotes only the quote itself is special.
        format!("export {name}='{}'\n", value.replace('\'', r"'\''"))
    };
    variables.iter().map(line).collect()
}

fn docker(variables: &[(&str, String)]) -> String {
    let pair = |(name, value): &(&str, String)| {
        let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('$', r"\$");
        format!("{name}=\"{value}\"")
    };
    let pairs: Vec<_> = variables.iter().map(pair).collect();
    format!("ENV {}\n", pairs.join(" \\\n    "))
}

fn kubernetes(variables: &[(&str, String)]) -> String {
    let entry = |(name, value): &(&str, String)| {
        // Doubled, a dollar in parentheses is no reference; a JSON string is a YAML string.
        let value = serde_json::Value::String(value.replace("$(", "$$("));
        format!("  - name: {name}\n    value: {value}\n")
    };
    format!("env:\n{}", variables.iter().map(entry).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_values_stay_themselves() {
        let variables = [("A", r#"it's "$(x)" \ $y"#.to_owned())];
        assert_eq!(shell(&variables), "export A='it'\\''s \"$(x)\" \\ $y'\n");
        assert_eq!(docker(&variables), "ENV A=\"it's \\\"\\$(x)\\\" \\\\ \\$y\"\n");
        assert_eq!(
            kubernetes(&variables),
            "env:\n  - name: A\n    value: \"it's \\\"$$(x)\\\" \\\\ $y\"\n"
        );
    }
}
