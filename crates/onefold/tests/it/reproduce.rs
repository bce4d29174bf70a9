//! `onefold reproduce`: the wiring; its numbers are the lab's own tests' matter.
//! Room: onefold.

use std::fs;

use super::harness::Sandbox;

#[test]
fn what_is_listed_can_be_run_printed_and_drawn() {
    let sandbox = Sandbox::new();
    let list = sandbox.ok(&["reproduce", "--list", "--json"]).json();
    assert!(list.as_array().unwrap().iter().any(|e| e["id"] == "ses-dedup/table-3"));
    let said = sandbox.ok(&["reproduce", "ses-dedup/fig-1", "--plots", "plots"]);
    assert!(said.text().contains("37"), "{}", said.text());
    let plot = fs::read_to_string(sandbox.path("plots/ses-dedup-fig-1.svg")).unwrap();
    assert!(plot.starts_with("<svg"), "{plot}");
    let said = sandbox.ok(&["reproduce", "ses-dedup/arithmetic", "--json", "--threads", "3"]);
    let said = said.json();
    assert_eq!(said["schema_version"], 2);
    let series = said["experiments"][0]["series"].as_array().unwrap();
    let capacity = |series: &&serde_json::Value| series["quantity"]["name"] == "capacity";
    let series = series.iter().find(capacity).unwrap();
    assert_eq!((&series["of"], &series["quantity"]["unit"]), (&"drive".into(), &"GiB".into()));
    let point = &series["points"][0];
    assert_eq!((&point["published"]["value"], &point["measured"]), (&32.0.into(), &32.0.into()));
    assert_eq!(
        (&point["kind"], &point["published"]["where"]),
        (&"derived".into(), &"Sec V-A".into())
    );
}

#[test]
fn unknown_names_and_missing_data_are_refused_before_anything_runs() {
    let sandbox = Sandbox::new();
    for (args, told) in [
        (&["reproduce", "sesame"][..], "no experiment `sesame`: expected ses-dedup"),
        (&["reproduce", "--data", "nowhere"], "cannot read 'nowhere'"),
        (&["reproduce", "--full", "--compare", "no/page.md"], "cannot write 'no/page.md'"),
    ] {
        let said = sandbox.onefold(args);
        assert_eq!((said.code, said.text()), (Some(2), ""), "{}", said.err);
        assert!(said.err.contains(told), "{}", said.err);
    }
}

#[test]
fn an_experiment_that_fails_keeps_no_other_from_being_told() {
    let sandbox = Sandbox::new();
    let both = "reproduce ses-dedup/fig-1 ses-dedup/arithmetic";
    // Only one of the two has such a parameter, and it is not the first.
    let both: Vec<&str> = both.split(' ').chain(["--set", "units=4096"]).collect();
    let said = sandbox.onefold(&both);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.text().starts_with("ses-dedup/fig-1: "), "{}", said.text());
    let problem = "experiments/ses-dedup/arithmetic/spec.toml: parameter `units` is not there";
    let told = format!(
        "warning: ses-dedup/arithmetic failed: {problem}\n\
         error: 1 of 2 experiments failed: ses-dedup/arithmetic\n"
    );
    assert_eq!(said.err, told);
    let said = sandbox.onefold(&[&both[..], &["--json"]].concat());
    assert_eq!((said.code, &said.err), (Some(1), &told));
    let json = said.json();
    assert_eq!(json["experiments"][0]["id"], "ses-dedup/fig-1");
    let failed = serde_json::json!([{ "id": "ses-dedup/arithmetic", "problem": problem }]);
    assert_eq!(json["failed"], failed);
}

#[test]
fn quick_sizes_stand_beside_full_ones_on_a_page() {
    let sandbox = Sandbox::new();
    let compare = ["reproduce", "ses-dedup/arithmetic", "--full", "--compare", "page.md"];
    let said = sandbox.ok(&compare);
    assert!(said.err.ends_with("written: page.md\n"), "{}", said.err);
    let page = fs::read_to_string(sandbox.path("page.md")).unwrap();
    let row = "| ses-dedup/arithmetic | drive, capacity | 32 | 32 | 32 | GiB | derived | met |";
    assert!(page.contains(row), "{page}");
    // Nothing is run that would overwrite a file, unless that is wanted.
    fs::write(sandbox.path("page.md"), "mine").unwrap();
    let refused = sandbox.onefold(&compare);
    assert_eq!((refused.code, refused.text()), (Some(2), ""), "{}", refused.err);
    let told = "error: 'page.md' exists already\nhint: --force overwrites it\n";
    assert_eq!(refused.err, told);
    assert_eq!(fs::read_to_string(sandbox.path("page.md")).unwrap(), "mine");
    sandbox.ok(&[&compare[..], &["--force"]].concat());
    assert!(fs::read_to_string(sandbox.path("page.md")).unwrap().contains(row));
}
