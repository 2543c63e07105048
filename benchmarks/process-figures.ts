// CPU time and memory of processes, from /proc.

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Linux shows times in hundredths of a second. */
const ticksPerSecond = 100

/** CPU seconds of a process so far, in all its threads, without its child processes. */
export async function cpuSeconds(pid: number): Promise<number> {
  return own(statOf(await readFile(`/proc/${pid}/stat`, 'utf8')))
}

/**
 * CPU seconds of a PostgreSQL server so far: of the postmaster and all its children, including those that have ended.
 *
 * @param folder of the server, as `Postgres.folder`
 */
export async function postgresCpuSeconds(folder: string): Promise<number> {
  const postmaster = (await readFile(join(folder, 'data', 'postmaster.pid'), 'utf8')).split('\n')[0]!
  for (;;) {
    const before = statOf(await readFile(`/proc/${postmaster}/stat`, 'utf8'))
    let seconds = own(before) + ended(before)
    for (const pid of (await readdir('/proc')).filter(name => /^\d+$/.test(name))) {
      const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(goneAsEmpty)
      if (stat !== '' && statOf(stat)[1] === Number(postmaster)) seconds += own(statOf(stat))
    }
    // A child that ended meanwhile could count twice or not at all.
    if (ended(statOf(await readFile(`/proc/${postmaster}/stat`, 'utf8'))) === ended(before)) return seconds
  }
}

/** The most memory that a process had so far (VmHWM). */
export async function residentMbMax(pid: number): Promise<number> {
  return (await residentKb(pid, 'VmHWM')) / 1024
}

/** The memory of a process now, or the most that it had. */
export async function residentKb(pid: number, field: 'VmRSS' | 'VmHWM'): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)?.[1])
}

/** The fields behind the name, which may contain anything: proc_pid_stat(5). The state, which is a letter, is NaN. */
function statOf(stat: string): number[] {
  return stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number)
}

function own(fields: readonly number[]): number {
  return (fields[11]! + fields[12]!) / ticksPerSecond
}

/** Of children that have ended. */
function ended(fields: readonly number[]): number {
  return (fields[13]! + fields[14]!) / ticksPerSecond
}

function goneAsEmpty(error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT' || error.code === 'ESRCH') return ''
  throw error
}
