#!/usr/bin/env bash
# A SLURM of one node on loopback, its files in the folder $1. Needs root, systemd it does not. stop.sh ends it.
set -euo pipefail
FOLDER=$1
HOST=$(hostname -s)
mkdir -p "$FOLDER"/{ctl,node,pids}

install -d -o munge -g munge -m 0755 /run/munge
install -d -o munge -g munge -m 0700 /var/log/munge /var/lib/munge
[ -s /etc/munge/munge.key ] || dd if=/dev/urandom bs=1024 count=1 of=/etc/munge/munge.key status=none
chown munge:munge /etc/munge/munge.key
chmod 0400 /etc/munge/munge.key
munge -n 2>/dev/null | unmunge >/dev/null 2>&1 || runuser -u munge -- munged --force

# Four cores whatever the machine has: two jobs of two processes run at once.
cat > "$FOLDER/slurm.conf" <<C
ClusterName=test
SlurmctldHost=$HOST(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=$FOLDER/ctl
SlurmdSpoolDir=$FOLDER/node
SlurmctldPidFile=$FOLDER/pids/slurmctld
SlurmdPidFile=$FOLDER/pids/slurmd
SlurmctldLogFile=$FOLDER/slurmctld.log
SlurmdLogFile=$FOLDER/slurmd.log
SlurmctldPort=16817
SlurmdPort=16818
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobRequeue=1
KillWait=60
SlurmdParameters=config_overrides
NodeName=$HOST NodeAddr=127.0.0.1 CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=4000 State=UNKNOWN
PartitionName=debug Nodes=$HOST Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
C
export SLURM_CONF="$FOLDER/slurm.conf"
slurmctld -f "$SLURM_CONF"
slurmd -f "$SLURM_CONF"
for _ in $(seq 60); do
    sinfo -h -o %T 2>/dev/null | grep -qE 'idle|mixed|allocated' && exit 0
    sleep 0.5
done
tail "$FOLDER"/*.log >&2
exit 1
