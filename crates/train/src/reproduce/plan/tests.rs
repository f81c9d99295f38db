use super::super::paper::table;
use super::*;

fn plan(name: &str, options: PlanOptions) -> Result<Plan> {
    Plan::new(table(name).unwrap(), PlanOptions { out: Plan::OUT.into(), ..options })
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.wanted().map(|run| run.name.as_str()).collect()
}

#[test]
fn columns_rows_cells_and_methods_choose_runs() {
    let options = |only: &[&str], methods: &[&str]| PlanOptions {
        only: strings(only),
        methods: strings(methods),
        ..PlanOptions::default()
    };
    assert_eq!(plan("table1", options(&[], &[])).unwrap().wanted().count(), 108);
    let some = plan("table1", options(&["cub-1shot"], &["cdkt", "dkt", "ove", "proto-net"])).unwrap();
    assert_eq!(
        names(&some),
        [
            "cub-1shot-proto-net",
            "cub-1shot-dkt",
            "cub-1shot-ove-ml",
            "cub-1shot-ove-pl",
            "cub-1shot-ml-low-tau",
            "cub-1shot-ml-tau1",
            "cub-1shot-pl-low-tau",
            "cub-1shot-pl-tau1"
        ]
    );
    let one = plan("table1", options(&["cub-1shot", "mini-5shot-dkt"], &["ml-low-tau", "dkt"])).unwrap();
    assert_eq!(names(&one), ["cub-1shot-dkt", "mini-5shot-dkt", "cub-1shot-ml-low-tau"]);
}

#[test]
fn the_same_run_of_several_tables_has_one_folder() {
    let folder = |name: &str, cell: &str| {
        let plan = plan(name, PlanOptions { only: strings(&[cell]), ..PlanOptions::default() }).unwrap();
        plan.wanted().next().unwrap().folder.clone()
    };
    let first = folder("table1", "cub-1shot-ml-low-tau");
    assert_eq!(first, Path::new("runs/paper/cub-1shot-ml-low-tau"));
    assert_eq!(folder("table3", "cub-cosine"), first);
    assert_eq!(folder("table4", "cub-1shot-tau0.2"), first);
    assert_eq!(folder("steps", "cub-2steps"), first);
    assert_eq!(folder("table2", "cub-5shot-dkt"), folder("table1", "cub-5shot-dkt"));
}

#[test]
fn a_budget_shortens_training_and_has_its_own_folder() {
    let options = PlanOptions {
        only: strings(&["cub-1shot-ml-low-tau"]),
        budget: Some(3_000),
        ..PlanOptions::default()
    };
    let plan = plan("table1", options).unwrap();
    let run = plan.wanted().next().unwrap();
    assert_eq!((run.config.train.episodes, run.config.train.validate_from), (3_000, 2_505));
    assert_eq!(run.paper.train.episodes, 60_000);
    assert_eq!(run.folder, Path::new("runs/paper/budget-3000/cub-1shot-ml-low-tau"));
    assert_eq!(plan.command(run), "siskin reproduce table1 --only cub-1shot-ml-low-tau --budget 3000");
}

#[test]
fn commands_repeat_what_the_run_is_made_of() {
    let options = PlanOptions {
        only: strings(&["cub-1shot"]),
        set: strings(&["dkt.noise=0.2", "data.train=my birds"]),
        elsewhere: vec![("cub-1shot-maml".into(), "a/b".into())],
        ..PlanOptions::default()
    };
    let plan = plan("table1", options).unwrap();
    let command = |name: &str| plan.command(plan.wanted().find(|run| run.name == name).unwrap());
    let set = "--set 'data.train=my birds'";
    assert_eq!(
        command("cub-1shot-dkt"),
        format!("siskin reproduce table1 --only cub-1shot-dkt --set dkt.noise=0.2 {set}")
    );
    assert_eq!(
        command("cub-1shot-maml"),
        format!("siskin reproduce table1 --only cub-1shot-maml {set} --run cub-1shot-maml=a/b")
    );
    assert_eq!(shell_word("it's"), "'it'\\''s'");
}

#[test]
fn wrong_names_get_the_nearest_and_settings_without_effect_are_refused() {
    let refused = |options: PlanOptions| plan("table1", options).unwrap_err().to_string();
    let only = |name: &str| PlanOptions { only: strings(&[name]), ..PlanOptions::default() };
    let error = refused(only("cub-1shoot"));
    assert!(error.contains("did you mean `cub-1shot`?") && error.contains("mini-5shot"), "{error}");
    let error = refused(only("cub-1shot-dtk"));
    assert!(error.contains("did you mean `cub-1shot-dkt`?"), "{error}");
    let error = refused(PlanOptions { methods: strings(&["protonet"]), ..PlanOptions::default() });
    assert!(error.contains("did you mean `proto-net`?"), "{error}");
    let elsewhere = vec![("cub-1shot-oveml".into(), "x".into())];
    let error = refused(PlanOptions { elsewhere, ..only("cub-1shot") });
    assert!(error.contains("did you mean `cub-1shot-ove-ml`?"), "{error}");
    let error = refused(PlanOptions { set: strings(&["maml.test_steps=3"]), ..only("dkt") });
    assert!(error.contains("has no effect"), "{error}");
    let error = refused(PlanOptions { methods: strings(&["maml"]), ..only("dkt") });
    assert!(error.contains("both --only and --methods"), "{error}");
}
