//! `corprof env`: the variables to set, in the form of a shell, a Dockerfile or Kubernetes.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use config::agent_variables;

use crate::agent;
use crate::args::EnvArgs;
use crate::failure::{FAILED, Failure};

/// Where images usually have the agent.
const IMAGE_AGENT: &str = "/opt/corprof/libcorprof.so";
/// The settings that are paths.
const PATHS: [&str; 2] = [OUTPUT_DIR, "CORPROF_LOG_FILE"];
/// Where the settings have the output folder.
const OUTPUT_DIR: &str = "CORPROF_OUTPUT_DIR";

/// Runs the command.
pub fn env(args: &EnvArgs) -> Result<u8, Failure> {
    let is_image = args.docker || args.k8s;
    let agent = match &args.agent {
        // It is where the program will run, so nothing of it can be checked here.
        Some(path) if is_image && path.is_relative() => {
            return Err(Failure::new(
                FAILED,
                format!(
                    "--agent {}: .NET needs an absolute path, as the image has it",
                    path.display()
                ),
            ));
        }
        Some(path) if is_image => path.clone(),
        None if is_image => PathBuf::from(IMAGE_AGENT),
        given => agent::find(given.as_deref())?,
    };
    let mut variables: Vec<(&str, String)> = agent_variables(&agent.to_string_lossy()).into();
    if !is_image && args.options.get(OUTPUT_DIR).is_none() {
        let default = config::Config::defaults("").output_dir;
        variables.push((OUTPUT_DIR, absolute(&default)?));
    }
    for (option, value) in &args.options.given {
        let is_path = !is_image && PATHS.contains(&option.var);
        let value = if is_path { absolute(Path::new(value))? } else { value.clone() };
        variables.push((option.var, value));
    }
    let agent = agent.display();
    let text = if args.docker {
        format!("# The agent has to be there: COPY libcorprof.so {agent}\n{}", docker(&variables))
    } else if args.k8s {
        format!(
            "# The image or a volume has to have the agent, libcorprof.so, as {agent}\n{}",
            kubernetes(&variables)
        )
    } else {
        shell(&variables)
    };
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(0)
}

/// The program may start in another folder.
fn absolute(path: &Path) -> anyhow::Result<String> {
    Ok(std::path::absolute(path)?.to_string_lossy().into_owned())
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
