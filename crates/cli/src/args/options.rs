//! The profiler's options as flags: those of `corprof run`, `corprof attach` and `corprof env`.

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};
use config::{Kind, OPTIONS, Opt};

use super::has_unit;

/// What to say of options that switch everything off.
pub const NOTHING: &str = "with CPU and wall time both off (--cpu-enabled, --wall-enabled) there \
                           is nothing to profile; leave one on";

/// The profiler's options that were given, from the one list in crate `config`.
#[derive(Clone, Debug, Default)]
pub struct ProfilerOptions {
    /// Options with their values, which are good ones.
    pub given: Vec<(&'static Opt, String)>,
}

impl ProfilerOptions {
    /// Whether they switch everything off, together with the variables that are set.
    pub fn profiles_nothing(&self, var: impl Fn(&str) -> Option<String>) -> bool {
        let value = |name: &'static str| {
            let value = self.get(name).map(str::to_owned).or_else(|| var(name))?;
            Some((name.to_owned(), value))
        };
        let vars = ["CORPROF_CPU_ENABLED", "CORPROF_WALL_ENABLED"].into_iter().filter_map(value);
        let config = config::Config::from_vars(vars, "").0;
        !config.cpu_enabled && !config.wall_enabled
    }

    /// Names of variables, and the values given for them. Paths are absolute: the process that
    /// they are for has another folder, or may change it.
    pub fn settings(&self) -> Vec<(String, String)> {
        let absolute = |value: &String| std::path::absolute(value).ok();
        let pair = |(option, value): &(&'static Opt, String)| {
            let path = option.is_path().then(|| absolute(value)).flatten();
            let value = path.map_or_else(|| value.clone(), |p| p.to_string_lossy().into_owned());
            (option.var.to_owned(), value)
        };
        self.given.iter().map(pair).collect()
    }

    /// The value given for a variable.
    pub fn get(&self, var: &str) -> Option<&str> {
        self.given.iter().find(|(option, _)| option.var == var).map(|(_, value)| value.as_str())
    }
}

impl FromArgMatches for ProfilerOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let value = |option: &'static Opt| {
            let value = matches.get_one::<String>(option.flag?)?;
            Some((option, value.clone()))
        };
        let given: Vec<_> = OPTIONS.iter().filter_map(value).collect();
        let options = Self { given };
        if options.profiles_nothing(|_| None) {
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, format!("{NOTHING}\n")));
        }
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ProfilerOptions {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(OPTIONS.iter().filter_map(argument))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// Options with a flag whose values are addresses.
const ADDRESSES: [&str; 3] =
    ["CORPROF_SERVER_URL", "CORPROF_PYROSCOPE_URL", "CORPROF_OTLP_ENDPOINT"];

fn argument(option: &'static Opt) -> Option<Arg> {
    let (values, default) = (option.values(), option.default_text());
    let help = format!("{} [{values}; default: {default}] [{}]", option.help, option.var);
    let check = |value: &str| {
        if matches!(option.kind, Kind::Duration { .. }) {
            has_unit(value, |text| option.check(text).is_ok())?;
        }
        option.check(value).map_err(|reason| reason.to_string())?;
        if ADDRESSES.contains(&option.var) && !value.trim().is_empty() {
            export::Address::parse(value)
                .map_err(|why| format!("no address: {why}; write it as http://host:port"))?;
        }
        Ok::<_, String>(value.to_owned())
    };
    let argument = Arg::new(option.flag?)
        .long(option.flag?)
        .action(ArgAction::Set)
        .value_name(option.placeholder())
        .help(help)
        .help_heading("Profiler options")
        .value_parser(check);
    Some(argument)
}
