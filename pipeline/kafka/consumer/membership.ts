// A worker's place in the consumer group: which partitions are its share, and since when they are not any more. Longer than most files:
// a state machine and what looks at its state.
//
//   out ──join, sync──▶ in ──heartbeats──▶ in
//                       │ "rebalancing": joins again, and keeps its share until it is given another one
//                       │ unknown to the group, or unheard of for longer than the session: the share is lost at once
//                       ▼
//                      out, until a share is asked for again
//
// The share outlives a rebalance that gives back the same partitions. Nobody else can have had them in between, since the group's
// generation is the next one; after any other generation the share is a new one. So a worker that joins or leaves disturbs only those
// whose partitions move. The price is that a share is revoked at the moment when another member gets it, not before: a batch that is
// being written then may be written twice, which sinks can stand (sinks/sink.ts).
//
// Heartbeats have their own clock. A pipeline that asks for nothing stays a member for as long as its event loop turns.

import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../../../config/logger.ts'
import { factOf } from '../../../config/outage.ts'
import type { Positions } from '../../../sinks/sink.ts'
import { LogUnavailableError } from '../../log.ts'
import { waitBefore } from '../../retry.ts'
import { SystemicError } from '../../systemic-error.ts'
import { code } from '../failure.ts'
import { assign } from './assignment.ts'
import { BrokerError, type KafkaBroker } from './broker.ts'
import type { Cluster } from './cluster.ts'
import { codeOf, logFailure } from './failure.ts'
import { joinGroup, readCommitted, syncGroup, writeCommitted } from './group.ts'
import type { Topic } from './topic.ts'

export interface MembershipOptions {
  readonly group: string
  /** After which the group gives a member up that it has not heard of; and a member its share, when it cannot reach the group. */
  readonly sessionMs: number
  /** How long the group waits for its members to join again. */
  readonly rebalanceMs: number
  readonly heartbeatMs: number
  /** How often the one who gives out the partitions looks whether the topic has more. */
  readonly metadataMs: number
}

/** The partitions that are the worker's until `revoked` aborts, with the error as its reason where one was the cause. */
export interface Share {
  readonly partitions: readonly number[]
  readonly revoked: AbortSignal
}

export interface Membership {
  /**
   * The share as it is, or the next one; undefined when `ending` aborts before. The first call joins the group.
   *
   * @throws SystemicError where the group can never be joined
   * @throws LogUnavailableError where it cannot be joined now
   */
  share(ending: AbortSignal): Promise<Share | undefined>
  /** What the group has committed. */
  committed(partitions: readonly number[]): Promise<Positions>
  /** Resolves when the group has acknowledged it, or when the share is revoked: it is nobody's business then. */
  commit(share: Share, positions: Positions): Promise<void>
  /** Gives the share to the others at once, and ends. */
  leave(): Promise<void>
}

/** The group has gone on without this member. */
const lost: ReadonlySet<number | undefined> = new Set([code.unknownMember, code.illegalGeneration, code.fencedInstance])
const backOff = { waitMsMin: 50, waitMsMax: 2000 }
/** How long a leave and a commit wait for a group that is busy. */
const leaveMsMax = 2000
const commitMsMax = 3000

interface HeldShare extends Share {
  generation: number
  readonly revoking: AbortController
}

export function openMembership(cluster: Cluster, topic: Topic, options: MembershipOptions, logger: Logger): Membership {
  const { group, sessionMs, rebalanceMs, heartbeatMs, metadataMs } = options
  const leaving = new AbortController()
  let living: Promise<void> | undefined
  let share: HeldShare | undefined
  let memberId = ''
  let leads = false
  /** As many as were given out, where this member gives them out. */
  let partitionsGiven = 0
  let heardMs = 0
  let isIn = false
  let changed = Promise.withResolvers<void>()

  function notify(): void {
    changed.resolve()
    changed = Promise.withResolvers()
  }

  /** Whoever leaves while it joins waits for its id, without which it cannot say so. */
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

  /** Joins, and goes on until it leaves or cannot reach the group for longer than a session. */
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
          if (said !== code.rebalancing) await pause(waitBefore(++failures, backOff))
        }
      }
    } catch (error) {
      const failure = error as Error
      // The runs that end with it throw it.
      logger.debug({ reason: factOf(failure), group }, 'left out of the consumer group')
      lose(failure)
      throw failure
    } finally {
      living = undefined
    }
  }

  /** @throws what ends this life: a failure that no retry can mend, or one that has lasted for a session */
  function patient(error: unknown): void {
    const failure = logFailure(error, `the consumer group ${group} cannot be reached`)
    if (failure instanceof SystemicError) throw failure
    cluster.forgetCoordinator()
    if (performance.now() - heardMs >= sessionMs) throw failure
    logger.debug({ err: failure, group }, 'trying the consumer group again')
  }

  /** A group that waits for a slow member answers late, and so does one that has never been asked: after a session nobody knows. */
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
    const joining = { group, sessionMs, rebalanceMs, memberId, owned, onMemberId: identify }
    const { generation, members, ...joined } = await joinGroup(cluster, topic, joining)
    heardMs = performance.now()
    identify(joined.memberId)
    leads = joined.leads
    const all = leads ? (await topic.now()).partitions.map(({ partition }) => partition) : []
    partitionsGiven = all.length
    const partitions = await syncGroup(cluster, topic, {
      group,
      memberId,
      generation,
      rebalanceMs,
      given: leads ? assign(topic.name, all, members) : new Map(),
    })
    heardMs = performance.now()
    take(generation, partitions)
  }

  function take(generation: number, partitions: readonly number[]): void {
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

  /** One heartbeat after its time. Throws for a rebalance, as it does for failures. */
  async function beat(): Promise<void> {
    await pause(heartbeatMs)
    if (leaving.signal.aborted) return
    const { generation } = share!
    await heard(broker => broker.heartbeat({ group, memberId, generation }))
    heardMs = performance.now()
    if (leads) await lookForPartitions()
  }

  let lookedMs = performance.now()
  async function lookForPartitions(): Promise<void> {
    if (performance.now() - lookedMs < metadataMs) return
    lookedMs = performance.now()
    const { partitions } = await topic.now()
    // Its joining again makes the group rebalance, because it is the one who gives them out.
    if (partitions.length !== partitionsGiven) throw new BrokerError(code.rebalancing, 'the topic has more partitions')
  }

  /** A heartbeat, given up when the session is over: a broker that stands still keeps connections open and says nothing. */
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

  async function pause(ms: number): Promise<void> {
    // An abort ends the wait, and then the life.
    await wait(ms, undefined, { signal: leaving.signal }).catch(() => undefined)
  }

  return {
    async share(ending) {
      const ended = AbortSignal.any([ending, leaving.signal])
      const end = aborted(ended)
      while (!ended.aborted) {
        if (share !== undefined) return share
        if (living === undefined) {
          living = live()
          // Whoever waits for a share meets its failure; where nobody does, it is in the log and the share is lost.
          living.catch(() => undefined)
        }
        await Promise.race([living, changed.promise, end])
      }
      return undefined
    },

    committed: partitions => readCommitted(cluster, topic, group, partitions),

    async commit(of, positions) {
      const untilMs = performance.now() + commitMsMax
      const isHeld = (): boolean => share === of
      while (isHeld()) {
        const next = changed.promise
        try {
          await writeCommitted(cluster, topic, { group, memberId, generation: share!.generation }, positions)
          return
        } catch (error) {
          const said = codeOf(error)
          if ((said !== code.rebalancing && !lost.has(said)) || performance.now() >= untilMs) {
            if (!isHeld()) return
            throw logFailure(error, `the offsets of the consumer group ${group} cannot be committed`)
          }
          // Whether the share is still ours is known when the group has settled.
          await Promise.race([next, aborted(of.revoked), pause(untilMs - performance.now())])
        }
      }
    },

    async leave() {
      leaving.abort()
      lose()
      const over = wait(leaveMsMax, undefined, { ref: false })
      // A group that has given an id to a member that joins waits for it, be it gone.
      if (memberId === '' && living !== undefined) await Promise.race([identified.promise, living, over]).catch(() => undefined)
      const id = memberId
      if (id === '') return
      // What is behind a JoinGroup on its connection waits for the whole group.
      if (!isIn) cluster.forgetCoordinator()
      const told = cluster.atCoordinator(group, broker => broker.leave(group, id))
      // Where it cannot be told, the session's end tells it.
      await Promise.race([told, over]).catch((error: unknown) =>
        logger.debug({ err: error, group }, 'the consumer group was not told of the leave'),
      )
    },
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  if (signal.aborted) resolve()
  else signal.addEventListener('abort', () => resolve(), { once: true })
  return promise
}
