#!/usr/bin/env bash
# Ends what start.sh began in the folder $1, with its jobs. munged stays: it may have been there before.
set -u
export SLURM_CONF="$1/slurm.conf"
for job in $(squeue -h -o %A); do scancel --signal=KILL --full "$job"; scancel "$job"; done
for name in slurmd slurmctld; do
    process=$(cat "$1/pids/$name" 2>/dev/null) && kill "$process" && tail --pid="$process" -f /dev/null
done
exit 0
