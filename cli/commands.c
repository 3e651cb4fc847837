#include "cli/commands.h"

/* Option groups: see the table in args.c. */
static const sg_command commands[] = {
    {"gauge", "gauge POLICY [--dataset D] [options]",
     "Measure this machine briefly, fit, and tell what the training needs here and what to rent",
     "stepgauge gauge act --dataset ~/data/pick_and_place --time-budget 100", "pnrdchmktwulogj", sg_cmd_gauge},
    {"devices", "devices [--cuda-libs DIR] [--json]", "What is here, and is it ready to train", "stepgauge devices",
     "cj", sg_cmd_devices},
    {"inspect", "inspect POLICY [options]",
     "Parameters, FLOPs, memory plan and operations of a training step; needs no hardware",
     "stepgauge inspect act --batch 8 --cameras 2", "pnrdij", sg_cmd_inspect},
    {"measure", "measure POLICY --batch B[,B..] [--dataset DIR --workers W[,W..]] [-o run.h5]",
     "Run the training step for real and record phases and memory", "stepgauge measure act --batch 1,2,4 -o run.h5",
     "pnrdchmketfwojL", sg_cmd_measure},
    {"bench", "bench gemm|memory|copy|launch|collective|decode|ops [--device D] [-o run.h5]",
     "The machine's ceilings: products, memory, copies, launches, collectives, frames",
     "stepgauge bench gemm --sizes 1024,5000 --precision fp32,bf16", "bnrdchtwoj", sg_cmd_bench},
    {"dataset", "dataset make DIR --kind K [options]\n       stepgauge dataset show DIR",
     "What a data set holds; or make a small one to measure loading with",
     "stepgauge dataset make demo --kind lerobot-v3.0 --episodes 4 --frames-per-episode 50", "Dj", sg_cmd_dataset},
    {"import", "import LOG..|- [--explain] [-o run.h5 --machine M] [--json]",
     "Read training logs of LeRobot, W&B, rsl_rl, openpi, HF Trainer, Brax",
     "stepgauge import train.log -o run.h5 --machine rtx-4090 --cameras 2", "azpnrwoEj", sg_cmd_import},
    {"compare", "compare LOG run.h5|machine.h5|MACHINE.. [POLICY options]",
     "A training log beside what was measured here and what is predicted, phase by phase",
     "stepgauge compare train.log run.h5 --cameras 2 --image-size 480x640", "apnrwquEj", sg_cmd_compare},
    {"fit",
     "fit run.h5 [POLICY] [-o machine.h5] [--probe FILE] [--log FILE]\n       stepgauge fit --kernels FILE.. --device "
     "NAME [-o machine.h5|.yaml]",
     "Fit a machine and the law of the step to measurements", "stepgauge fit run.h5 --probe probe.json -o here.h5",
     "ogwpnrdhmxkEj", sg_cmd_fit},
    {"predict", "predict POLICY --machine M [--batch B] [--gpus G]",
     "Step time, throughput and memory on a machine, with intervals",
     "stepgauge predict act --machine rtx-4090 --batch 8", "pnrwqukeyEjL", sg_cmd_predict},
    {"plan",
     "plan POLICY --dataset D --epochs E [--budget USD] [--deadline H]\n       stepgauge plan --log train.log [--steps "
     "N]",
     "Wall-clock, cost and ranked offers for a whole training",
     "stepgauge plan act --frames 45000 --epochs 5 --batch 8", "pnrwuljsE", sg_cmd_plan},
    {"validate", "validate [FILES] [--cross-validate [rows|devices|batches]]",
     "How far the predictions are from published and field measurements",
     "stepgauge validate --collectives allreduce.csv.gz --cross-validate rows", "xvuj", sg_cmd_validate},
};

const sg_command *sg_commands(size_t *count) {
    *count = sizeof commands / sizeof commands[0];
    return commands;
}
