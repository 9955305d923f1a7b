#!/usr/bin/env bash
# SLURM and its authentication service from Debian's or Ubuntu's packages. Needs root.
set -euo pipefail
command -v slurmctld slurmd munged >/dev/null && exit 0
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends slurm-wlm munge
