// A fair queue for slow work (hashing passwords, generating keys): it limits how many jobs run at once and how many wait, and a flood from one
// account or address does not hold up the others.
//
// Fair by tags: a job comes after the waiting jobs of its account and its address, and level with the first jobs of all others. Jobs of one
// account run one at a time, so that each sees the failures of those before it.

import { setTimeout as wait } from 'node:timers/promises'
import { HttpError } from '../../http/errors.ts'

/** What jobs are counted by: the account (a user's id, a normalised email, or another key of the caller's choice), and the client's network. */
export interface Requester {
  readonly account: string
  readonly address: string
  /** Recently failed sign-ins to the account from the address; 0 by default. */
  readonly failures?: number
}

export interface FairQueue {
  /**
   * Runs the work when its turn comes, after the delay.
   *
   * @throws HttpError `too_many_requests` if the account or the address has too many jobs, also while the job waits; `unavailable` if there are
   * too many in all; whatever the work throws
   */
  run<Result>(requester: Requester, work: () => Promise<Result>, delayMs?: number): Promise<Result>
}

export interface FairQueueOptions {
  /** For errors: `['passwords', 'checked']`. */
  readonly what: readonly [things: string, done: string]
  /** How many run at once. */
  readonly concurrentMax: number
  /** Jobs that are delayed, waiting or running: in all, of one address, and of one account. */
  readonly jobsMax: number
  readonly addressJobsMax: number
  readonly accountJobsMax: number
}

interface Job extends Required<Requester> {
  state: 'delayed' | 'waiting' | 'running'
  tag: number
  start: () => void
  drop: (reason: HttpError) => void
}

export function openFairQueue({ what, concurrentMax, jobsMax, addressJobsMax, accountJobsMax }: FairQueueOptions): FairQueue {
  const [things, done] = what
  const tooMany = (of: string): string => `too many ${things}${of} are being ${done} right now: retry`
  const tooManyOfAccount = (): HttpError => new HttpError('too_many_requests', tooMany(' of this account'))
  const tooManyOfAddress = (): HttpError => new HttpError('too_many_requests', tooMany(' from this address'))

  // In the order of arrival.
  const jobs = new Set<Job>()
  let lastTag = 0

  function admit({ account, address, failures = 0 }: Requester): Job {
    const all = [...jobs]
    if (all.filter(job => job.address === address).length >= addressJobsMax) throw tooManyOfAddress()
    const accountJobs = all.filter(job => job.account === account)
    if (accountJobs.length >= accountJobsMax) dropForBetter(accountJobs, address, failures)
    if (jobs.size >= jobsMax) dropForOthers(address)
    const job: Job = { account, address, failures, state: 'delayed', tag: 0, start: () => undefined, drop: () => undefined }
    jobs.add(job)
    return job
  }

  /** Drops the last job of the address with the most failures and jobs at an account, in favour of an address with fewer: most likely the owner's. */
  function dropForBetter(accountJobs: readonly Job[], address: string, failures: number): void {
    const guesses = (from: string, failed: number): number => failed + accountJobs.filter(job => job.address === from).length
    const idle = accountJobs.filter(({ state }) => state !== 'running')
    const most = Math.max(...idle.map(job => guesses(job.address, job.failures)))
    const last = idle.findLast(job => guesses(job.address, job.failures) === most)
    if (last === undefined || most <= guesses(address, failures) + 1) throw tooManyOfAccount()
    jobs.delete(last)
    last.drop(tooManyOfAccount())
  }

  /** Drops the last job of the address with the most jobs, in favour of an address with fewer; otherwise two addresses could keep out all others. */
  function dropForOthers(address: string): void {
    const counts = new Map<string, number>()
    for (const job of jobs) counts.set(job.address, (counts.get(job.address) ?? 0) + 1)
    const most = Math.max(...counts.values())
    const last = [...jobs].findLast(job => job.state !== 'running' && counts.get(job.address) === most)
    if (last === undefined || most <= (counts.get(address) ?? 0) + 1) {
      throw new HttpError('unavailable', tooMany(''))
    }
    jobs.delete(last)
    last.drop(tooManyOfAddress())
  }

  async function ready(job: Job, delayMs: number): Promise<void> {
    if (delayMs > 0) await wait(delayMs)
    if (jobs.has(job)) await turnOf(job)
  }

  function turnOf(job: Job): Promise<void> {
    const before = [...jobs].filter(other => other.state === 'waiting' && (other.account === job.account || other.address === job.address))
    job.tag = Math.max(lastTag, ...before.map(({ tag }) => tag)) + 1
    job.state = 'waiting'
    return new Promise(resolve => {
      job.start = resolve
      startNext()
    })
  }

  function startNext(): void {
    const running = [...jobs].filter(({ state }) => state === 'running')
    if (running.length >= concurrentMax) return
    let next: Job | undefined
    for (const job of jobs) {
      if (job.state !== 'waiting' || running.some(({ account }) => account === job.account)) continue
      if (next === undefined || job.tag < next.tag) next = job
    }
    if (next === undefined) return
    next.state = 'running'
    lastTag = next.tag
    next.start()
    startNext()
  }

  return {
    async run(requester, work, delayMs = 0) {
      const job = admit(requester)
      try {
        await new Promise<void>((resolve, reject) => {
          job.drop = reject
          ready(job, delayMs).then(resolve, reject)
        })
        return await work()
      } finally {
        jobs.delete(job)
        startNext()
      }
    },
  }
}
