// A worker's membership in the consumer group: which partitions are its share, and when they are revoked. Longer than most files, because
// it is one state machine with the functions that read its state.
//
//   out ──join, sync──▶ in ──heartbeats──▶ in
//                       │ "rebalancing": joins again, and keeps its share until it gets another one
//                       │ unknown to the group, or no contact for longer than the session: the share is dropped immediately
//                       ▼
//                      out, until a share is requested again
//
// A share survives a rebalance that assigns the same partitions. If the group's generation is the next one, no other member can have had
// them in between; after any other generation the share is a new one. So a worker that joins or leaves affects only workers
// whose partitions move. The price: a share is revoked only when another member gets it, so a batch that is being written at that
// moment may be written twice, which sinks tolerate (sinks/sink.ts).
//
// Heartbeats run on their own timer: a pipeline that requests nothing stays a member as long as its event loop runs.

import { setTimeout as wait } from 'node:timers/promises'
import { aborted, pause } from '../../../config/aborting.ts'
import type { Logger } from '../../../config/logger.ts'
import { factOf } from '../../../config/outage.ts'
import type { Positions } from '../../../sinks/sink.ts'
import type { LogPartition } from '../../../transformers/log-partition.ts'
import { LogUnavailableError } from '../../log.ts'
import { SystemicError } from '../../systemic-error.ts'
import { waitBefore } from '../../writer/retry.ts'
import { code } from '../failure.ts'
import { BrokerError, type KafkaBroker } from './broker.ts'
import type { Cluster } from './cluster.ts'
import { codeOf, logFailure } from './failure.ts'
import { joinGroup, readCommitted, syncGroup, writeCommitted } from './group.ts'
import { openLeadership } from './leadership.ts'
import type { Topics } from './topics.ts'

export interface MembershipOptions {
  readonly group: string
  readonly instance: string | undefined
  /** Time without contact after which the group removes a member, and after which a member drops its share. */
  readonly sessionMs: number
  /** How long the group waits for its members to join again. */
  readonly rebalanceMs: number
  readonly heartbeatMs: number
  /** How often the leader checks whether the topics have more partitions. */
  readonly metadataMs: number
}

/** The worker's partitions until `revoked` aborts; its reason is the error, if there was one. */
export interface Share {
  readonly partitions: readonly LogPartition[]
  readonly revoked: AbortSignal
}

export interface Membership {
  /**
   * The current share, or the next one; undefined if `stop` aborts first. The first call joins the group.
   *
   * @throws SystemicError if the group can never be joined
   * @throws LogUnavailableError if it cannot be joined now
   */
  share(stop: AbortSignal): Promise<Share | undefined>
  /** The group's committed offsets. */
  committed(partitions: readonly LogPartition[]): Promise<Positions>
  /** Resolves when the group has acknowledged it, or when the share is revoked: the commit then no longer matters. */
  commit(share: Share, positions: Positions): Promise<void>
  /** Leaves the group, so that the other members get the share immediately. */
  leave(): Promise<void>
}

/** The group has continued without this member, which then joins again. Not if another member has taken its name: both would keep taking it from each other. */
const lost: ReadonlySet<number | undefined> = new Set([code.unknownMember, code.illegalGeneration])
const backOff = { waitMsMin: 50, waitMsMax: 2000 }
/** How long a leave and a commit wait for a group that is busy. */
const leaveMsMax = 2000
const commitMsMax = 3000

interface HeldShare extends Share {
  generation: number
  readonly revoking: AbortController
}

export function openMembership(cluster: Cluster, topics: Topics, options: MembershipOptions, logger: Logger): Membership {
  const { group, instance, sessionMs, rebalanceMs, heartbeatMs, metadataMs } = options
  const leadership = openLeadership(topics, group, logger)
  const leaving = new AbortController()
  let living: Promise<void> | undefined
  let share: HeldShare | undefined
  let memberId = ''
  let leads = false
  let heardMs = 0
  let isIn = false
  let changed = Promise.withResolvers<void>()

  function notify(): void {
    changed.resolve()
    changed = Promise.withResolvers()
  }

  /** A leave during a join waits for the member id, which it needs. */
  let identified = Promise.withResolvers<void>()
  function identify(id: string): void {
    memberId = id
    if (id === '') identified = Promise.withResolvers()
    else identified.resolve()
  }

  function lose(reason?: Error): void {
    share?.revoking.abort(reason)
    share = undefined
  }

  /** Joins, and stays a member until it leaves or cannot reach the group for longer than a session. */
  async function live(): Promise<void> {
    let failures = 0
    isIn = false
    heardMs = performance.now()
    try {
      while (!leaving.signal.aborted) {
        try {
          if (!isIn) await join()
          isIn = true
          failures = 0
          await beat()
        } catch (error) {
          if (leaving.signal.aborted) return
          const said = codeOf(error)
          isIn = isIn && said !== code.rebalancing && !lost.has(said)
          if (lost.has(said)) lose()
          if (said === code.unknownMember) identify('')
          else if (said !== code.rebalancing && !lost.has(said)) patient(error)
          if (said !== code.rebalancing) await pause(waitBefore(++failures, backOff), leaving.signal)
        }
      }
    } catch (error) {
      const failure = error as Error
      // The chunks that end because of it throw it.
      logger.debug({ reason: factOf(failure), group }, 'dropped out of the consumer group')
      lose(failure)
      throw failure
    } finally {
      living = undefined
    }
  }

  /** @throws an error that ends the membership: a permanent one, or one that has lasted for a session */
  function patient(error: unknown): void {
    const failure = logFailure(error, `the consumer group ${group} cannot be reached`)
    if (failure instanceof SystemicError) throw failure
    cluster.forgetCoordinator()
    if (performance.now() - heardMs >= sessionMs) throw failure
    logger.debug({ err: failure, group }, 'retrying the consumer group')
  }

  /** Joins. The group answers late if it waits for a slow member, so the answer may take longer than a session. */
  async function join(): Promise<void> {
    const late = setTimeout(() => lose(), Math.max(0, heardMs + sessionMs - performance.now()))
    try {
      await joinAndSync()
    } finally {
      clearTimeout(late)
    }
  }

  async function joinAndSync(): Promise<void> {
    const owned = share?.partitions ?? []
    const joining = { group, instance, sessionMs, rebalanceMs, memberId, owned, onMemberId: identify }
    const { generation, members, ...joined } = await joinGroup(cluster, topics, joining)
    heardMs = performance.now()
    identify(joined.memberId)
    leads = joined.leads
    if (joined.skipsAssignment) leadership.forget()
    const assignments = leads && !joined.skipsAssignment ? await leadership.assign(members) : new Map<string, Buffer>()
    const partitions = await syncGroup(cluster, topics, { group, memberId, instance, generation, rebalanceMs, assignments })
    heardMs = performance.now()
    take(generation, partitions)
  }

  function take(generation: number, partitions: readonly LogPartition[]): void {
    const isNext = share !== undefined && generation - share.generation <= 1
    const isSame = isNext && share!.partitions.length === partitions.length && partitions.every((one, at) => one === share!.partitions[at])
    if (isSame) {
      share!.generation = generation
    } else {
      share?.revoking.abort()
      const revoking = new AbortController()
      share = { partitions, revoked: revoking.signal, revoking, generation }
    }
    logger.info({ group, generation, partitions: partitions.length, kept: isSame }, 'joined the consumer group')
    notify()
  }

  /** Waits, then sends one heartbeat. Throws for a rebalance and for failures. */
  async function beat(): Promise<void> {
    await pause(heartbeatMs, leaving.signal)
    if (leaving.signal.aborted) return
    const { generation } = share!
    await heard(broker => broker.heartbeat({ group, memberId, instance, generation }))
    heardMs = performance.now()
    if (leads) await lookForPartitions()
  }

  let lookedMs = performance.now()
  async function lookForPartitions(): Promise<void> {
    if (performance.now() - lookedMs < metadataMs) return
    lookedMs = performance.now()
    // When the leader joins again, the group rebalances.
    if (await leadership.isOutdated()) throw new BrokerError(code.rebalancing, 'there are more partitions')
  }

  /** A heartbeat, aborted when the session is over: a frozen broker keeps connections open without answering. */
  async function heard(call: (broker: KafkaBroker) => Promise<unknown>): Promise<void> {
    const asked = cluster.atCoordinator(group, call)
    asked.catch(() => undefined)
    const over = new AbortController()
    const left = Math.max(0, heardMs + sessionMs - performance.now())
    const silent = wait(left, undefined, { signal: over.signal }).then(() => {
      throw new LogUnavailableError(`the coordinator of the consumer group ${group} has not answered for ${sessionMs} ms`)
    })
    silent.catch(() => undefined)
    try {
      await Promise.race([asked, silent])
    } finally {
      over.abort()
    }
  }

  return {
    async share(stop) {
      const ended = AbortSignal.any([stop, leaving.signal])
      const end = aborted(ended)
      while (!ended.aborted) {
        if (share !== undefined) return share
        if (living === undefined) {
          living = live()
          // Callers that wait for a share get the error; without one it is logged and the share is lost.
          living.catch(() => undefined)
        }
        await Promise.race([living, changed.promise, end])
      }
      return undefined
    },

    committed: partitions => readCommitted(cluster, topics, group, partitions),

    async commit(of, positions) {
      const untilMs = performance.now() + commitMsMax
      const isHeld = (): boolean => share === of
      while (isHeld()) {
        const next = changed.promise
        try {
          await writeCommitted(cluster, topics, { group, memberId, instance, generation: share!.generation }, positions)
          return
        } catch (error) {
          const said = codeOf(error)
          if ((said !== code.rebalancing && !lost.has(said)) || performance.now() >= untilMs) {
            if (!isHeld()) return
            throw logFailure(error, `the offsets of the consumer group ${group} cannot be committed`)
          }
          // Whether the share is still ours is known after the rebalance.
          await Promise.race([next, aborted(of.revoked), pause(untilMs - performance.now(), leaving.signal)])
        }
      }
    },

    async leave() {
      leaving.abort()
      lose()
      const over = wait(leaveMsMax, undefined, { ref: false })
      // A group that has assigned an id to a joining member waits for it even if it is gone, so it must leave with that id. A static member can leave by name.
      const isNamed = instance !== undefined && living !== undefined
      if (memberId === '' && living !== undefined && !isNamed) {
        await Promise.race([identified.promise, living, over]).catch(() => undefined)
      }
      if (memberId === '' && !isNamed) return
      const member = { group, memberId, instance }
      // Requests behind a JoinGroup on its connection would wait for the whole group.
      if (!isIn) cluster.forgetCoordinator()
      const told = cluster.atCoordinator(group, broker => broker.leave(member))
      // If the leave fails, the group removes the member when the session times out.
      await Promise.race([told, over]).catch((error: unknown) => logger.debug({ err: error, group }, 'failed to leave the consumer group'))
    },
  }
}
