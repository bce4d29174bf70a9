//! What a real bash offers, with the script that the program prints.
//! Room: onefold.

use std::process::Command;

use crate::harness::{ONEFOLD, Sandbox, run};

/// Load the script in a bash and print what is offered for the last word, which is unfinished.
const ASK: &str = r#"
source <(onefold completions bash)
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
complete -p onefold >/dev/null || exit 1
_clap_complete_onefold onefold "${COMP_WORDS[COMP_CWORD]}" 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"
"#;

fn offered(sandbox: &Sandbox, words: &[&str]) -> Vec<String> {
    let folder = std::path::Path::new(ONEFOLD).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-c", ASK, "ask", "onefold"]).args(words).env("PATH", path);
    let said = run(bash.current_dir(sandbox.path("")).env_remove("ONEFOLD_COMPLETE"));
    assert_eq!(said.code, Some(0), "{}", said.err);
    said.text().lines().map(str::to_owned).collect()
}

#[test]
fn a_shell_offers_the_volumes_of_the_pool_that_was_named() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool"]);
    for name in ["mail", "main", "other"] {
        sandbox.ok(&["volume", "create", "pool", name, "--size", "1G"]);
    }
    assert_eq!(offered(&sandbox, &["volume", "delete", "pool", "ma"]), ["mail", "main"]);
    // While a server has the pool nothing is known, and nothing is said.
    let server = sandbox.serve("pool", &[]);
    assert!(!offered(&sandbox, &["volume", "delete", "pool", "ma"]).contains(&"mail".to_owned()));
    drop(server);
}

#[test]
fn a_shell_offers_the_versions_of_an_archive() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["archive", "create", "store"]);
    std::fs::write(sandbox.path("file"), "text").unwrap();
    sandbox.ok(&["archive", "add", "store", "file"]);
    assert_eq!(offered(&sandbox, &["archive", "ls", "store", "--version", ""]), ["1"]);
}

#[test]
fn a_shell_offers_names_that_only_the_program_knows() {
    let sandbox = Sandbox::new();
    for (words, one) in [
        (&["reproduce", "ses-dedup/table"][..], "ses-dedup/table-4"),
        (&["ssd", "run", "--set", "ftl.map_c"], "ftl.map_cache_bytes="),
        // Where no table is named, the key is enough.
        (&["ssd", "run", "--sweep", "map_c"], "map_cache_bytes="),
        (&["cache", "run", "--set", "trace.c"], "trace.container_kib="),
        (&["array", "run", "--preset", "fidr-n"], "fidr-nic"),
        (&["serve", "pool", "--cache-policy", "to"], "toll"),
        (&["pool", "create", "--fingerprint", "sha2"], "sha256"),
        (&["scrambler", "show", "sam"], "samsung-prbs15"),
    ] {
        let said = offered(&sandbox, words);
        assert!(said.iter().any(|offer| offer == one), "{words:?}: {said:?}");
    }
    let policies = offered(&sandbox, &["serve", "pool", "--cache-policy", ""]);
    assert!(!policies.iter().any(|offer| offer == "belady"), "it knows the future: {policies:?}");
}
