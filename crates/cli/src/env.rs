//! `corprof env`: the variables to set, in the form of a shell, a Dockerfile or Kubernetes.

use std::env::var;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use config::{BESIDE_LIST, agent_variables, beside_variables};

use crate::args::EnvArgs;
use crate::failure::{FAILED, Failure};
use crate::run::check_beside;
use crate::{agent, spans, warn};

/// Where images usually have the agent.
const IMAGE_AGENT: &str = "/opt/corprof/libcorprof.so";
/// Where a volume usually is for the profiles. The agent's own default, in the program's working
/// folder, can't be written to as a rule: it is root's, or all of the file system is read-only.
const IMAGE_OUTPUT: &str = "/var/lib/corprof";
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
    let mut variables = agent_of(args, &agent)?;
    if args.options.get(OUTPUT_DIR).is_none() {
        let default = config::Config::defaults("").output_dir;
        let folder = if is_image { IMAGE_OUTPUT.to_owned() } else { absolute(&default)? };
        variables.push((OUTPUT_DIR, folder));
    }
    for ((option, typed), (_, value)) in args.options.given.iter().zip(args.options.settings()) {
        variables.push((option.var, if is_image { typed.clone() } else { value }));
    }
    let hook = hook(args, &agent);
    let text = if args.docker {
        docker_comments(&agent, hook.as_deref())
            + &output_comment(&variables)
            + &docker(&variables, hook.as_deref())
    } else if args.k8s {
        kubernetes_comments(&agent, hook.as_deref())
            + &output_comment(&variables)
            + &kubernetes(&variables, hook.as_deref())
    } else {
        shell(&variables, hook.as_deref())
    };
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(0)
}

/// The variables that name the agent to .NET.
fn agent_of(args: &EnvArgs, agent: &Path) -> anyhow::Result<Vec<(&'static str, String)>> {
    let path = agent.to_string_lossy();
    if !args.beside {
        return Ok(agent_variables(&path).into());
    }
    check_beside(agent)?;
    // What is set here says nothing of an image.
    let others = if args.docker || args.k8s { None } else { var(BESIDE_LIST).ok() };
    Ok(beside_variables(&path, others.as_deref()).into())
}

/// The startup hook's path, if spans are wanted; here, where it can be seen, only if it is there.
fn hook(args: &EnvArgs, agent: &Path) -> Option<String> {
    let is_image = args.docker || args.k8s;
    // What is set here says nothing of an image.
    let variable = |name: &str| if is_image { None } else { var(name).ok() };
    if !spans::are_wanted(&args.options, variable) {
        return None;
    }
    let found = if is_image { Ok(agent.with_file_name(spans::HOOK)) } else { spans::find(agent) };
    match found {
        Ok(path) => Some(path.to_string_lossy().into_owned()),
        Err(hint) => {
            warn(hint);
            None
        }
    }
}

/// The program may start in another folder.
fn absolute(path: &Path) -> anyhow::Result<String> {
    Ok(std::path::absolute(path)?.to_string_lossy().into_owned())
}

fn shell(variables: &[(&str, String)], hook: Option<&str>) -> String {
    let line = |(name, value): &(&str, String)| {
        // Inside single quotes only the quote itself is special.
        format!("export {name}='{}'\n", value.replace('\'', r"'\''"))
    };
    let mut text: String = variables.iter().map(line).collect();
    if let Some(hook) = hook {
        // After those that are there already.
        let (name, hook) = (spans::VARIABLE, hook.replace('\'', r"'\''"));
        text.push_str(&format!("export {name}=\"${{{name}:+${name}:}}\"'{hook}'\n"));
    }
    text
}

fn docker_comments(agent: &Path, hook: Option<&str>) -> String {
    let agent = agent.display();
    let mut text = format!("# The agent has to be there: COPY libcorprof.so {agent}\n");
    if let Some(hook) = hook {
        text.push_str(&format!(
            "# So has its startup hook, without which .NET would not start the program\n\
             # (--spans false leaves it out): COPY {} {hook}\n",
            spans::HOOK
        ));
    }
    text
}

/// What is needed where profiles are to go.
fn output_comment(variables: &[(&str, String)]) -> String {
    let output = variables.iter().rev().find(|(name, _)| *name == OUTPUT_DIR);
    let folder = output.map(|(_, folder)| folder.as_str()).unwrap_or_default();
    format!("# A volume that the program's user can write to has to be at {folder:?}\n")
}

fn docker(variables: &[(&str, String)], hook: Option<&str>) -> String {
    let quoted = |value: &str| value.replace('\\', r"\\").replace('"', "\\\"").replace('$', r"\$");
    let pair = |(name, value): &(&str, String)| format!("{name}=\"{}\"", quoted(value));
    let mut pairs: Vec<_> = variables.iter().map(pair).collect();
    if let Some(hook) = hook {
        // After those that the image has already.
        let name = spans::VARIABLE;
        pairs.push(format!("{name}=\"${{{name}:+${name}:}}{}\"", quoted(hook)));
    }
    format!("ENV {}\n", pairs.join(" \\\n    "))
}

fn kubernetes_comments(agent: &Path, hook: Option<&str>) -> String {
    let agent = agent.display();
    let mut text =
        format!("# The image or a volume has to have the agent, libcorprof.so, as {agent}\n");
    if let Some(hook) = hook {
        text.push_str(&format!(
            "# and its startup hook, without which .NET would not start the program, as\n\
             # {hook} (--spans false leaves it out).\n\
             # If the image sets {} itself, put its hooks before this one, with a colon between.\n",
            spans::VARIABLE
        ));
    }
    text
}

fn kubernetes(variables: &[(&str, String)], hook: Option<&str>) -> String {
    let entry = |(name, value): &(&str, String)| {
        // Doubled, a dollar in parentheses is no reference; a JSON string is a YAML string.
        let value = serde_json::Value::String(value.replace("$(", "$$("));
        format!("  - name: {name}\n    value: {value}\n")
    };
    let hook = hook.map(|hook| (spans::VARIABLE, hook.to_owned()));
    format!("env:\n{}", variables.iter().chain(&hook).map(entry).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_values_stay_themselves() {
        let variables = [("A", r#"it's "$(x)" \ $y"#.to_owned())];
        assert_eq!(shell(&variables, None), "export A='it'\\''s \"$(x)\" \\ $y'\n");
        assert_eq!(docker(&variables, None), "ENV A=\"it's \\\"\\$(x)\\\" \\\\ \\$y\"\n");
        assert_eq!(
            kubernetes(&variables, None),
            "env:\n  - name: A\n    value: \"it's \\\"$$(x)\\\" \\\\ $y\"\n"
        );
    }
}
