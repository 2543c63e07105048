// Shared subscriptions (MQTT 5 §4.8.2): those with the same share name and filter are a group, of which each message goes to one.
//
// The position of a group is kept like that of a session (sessions/store.ts), and not past what is unacknowledged. Of the instances that have members of it
// one holds it. The members of the others wait, and one of these takes it when the holder has no more members, or has not saved it for a while. While the log
// or the sessions are away all wait.

import type { Logger } from '../../../config/logger.ts'
import { type Dispatch, type DispatchParts, type Member, openDispatch } from '../../live/dispatch.ts'
import type { LiveMessages } from '../../live/messages.ts'
import type { MqttMetrics } from '../metrics.ts'
import { isUnavailable, reasons } from '../reasons.ts'
import { nothingKept } from '../sessions/records.ts'
import { connectedSeconds, type HeldSession, type SessionStore, thingBytesMax } from '../sessions/store.ts'
import type { StartTimer } from '../timer.ts'
import { FilterError, matches, type TopicFilter } from './filter.ts'
import { outgoingOf } from './outgoing.ts'

interface GroupsParts {
  readonly live: LiveMessages
  readonly sessions: SessionStore
  readonly startTimer: StartTimer
  readonly connectionMetrics: Pick<MqttMetrics, 'lost'>
  readonly logger: Pick<Logger, 'info' | 'debug' | 'warn' | 'error'>
}

export type Groups = ReturnType<typeof openGroups>
/** Of one connection. */
export type Membership = Awaited<ReturnType<Groups['enter']>>

const tickMs = 1_000
/** A holder with nothing new saves as often, since other instances watch it. */
const renewalTicks = 5
/** How long a position without sessions outlives its members here, for those at other instances. */
const unkeptSeconds = 60

/** All groups of a process. */
export function openGroups(parts: GroupsParts) {
  const groups = new Map<string, ReturnType<typeof openGroup>>()
  return {
    /**
     * Resolves when no message is missed from then on.
     *
     * @param name with the share name and the filter
     * @param expirySeconds how long the position is kept at least without members
     * @throws FilterError, LiveUnavailableError, SessionsUnavailableError
     */
    async enter(name: string, filter: TopicFilter, expirySeconds: number) {
      const group = groups.get(name) ?? openGroup(parts, name, filter)
      groups.set(name, group)
      group.users++
      let own: Member | undefined
      const membership = {
        /** Messages begin. Called once. */
        start(member: Member): void {
          own = member
          group.members.add(member)
          group.wake()
        },
        /** The member has space again. */
        wake: () => group.wake(),
        /** Called once. */
        stop(): void {
          if (own !== undefined) group.left(own)
          if (--group.users > 0) return
          groups.delete(name)
          void group.close()
        },
      }
      try {
        const isLonger = expirySeconds > group.expirySeconds
        if (isLonger) group.expirySeconds = expirySeconds
        await group.opened
        if (isLonger) await group.save(false)
      } catch (error) {
        membership.stop()
        throw error
      }
      return membership
    },
  }
}

function openGroup(parts: GroupsParts, name: string, { channel, levels }: TopicFilter) {
  const { live, sessions, startTimer, connectionMetrics, logger } = parts
  // No thing has such an id.
  const key = { thing: `$share/${channel}`, clientId: name }
  const members = new Set<Member>()
  /** undefined while another instance has the group. */
  let dispatch: Dispatch | undefined
  let held: HeldSession | undefined
  /** How many ticks until it is saved. */
  let ticksToSave = 0
  let hasFailed = false
  let isClosed = false

  const dispatchParts: Omit<DispatchParts, 'onEnd'> = {
    live,
    channel,
    members,
    isWanted(message) {
      const outgoing = outgoingOf(message)
      return message.raw.fault === undefined && outgoing.isSendable && matches(levels, outgoing.parts)
    },
    onProgress: () => void (ticksToSave = 0),
    onLost() {
      logger.info({ group: name }, 'MQTT: messages were deleted from the log before they could be delivered')
      connectionMetrics.lost()
    },
  }

  /** Takes the group unless another instance has it. @param isWaiting it had members before */
  async function take(isWaiting: boolean): Promise<void> {
    if (await sessions.isHeldElsewhere(key)) return
    const over = new AbortController()
    const onEnd = (): void => over.abort()
    held = await sessions.take(key, onEnd, isWaiting ? undefined : checkSpace)
    const { kept } = held
    const keptSeconds = (kept?.keptSeconds ?? 0) - connectedSeconds
    group.expirySeconds = Math.max(group.expirySeconds, keptSeconds)
    const own = await openDispatch({ ...dispatchParts, onEnd }, kept?.positions[channel])
    if (over.signal.aborted) return own.stop()
    over.signal.addEventListener('abort', () => {
      own.stop()
      dispatch = undefined
    })
    dispatch = own
    own.start()
    await group.save(false)
  }

  async function tick(): Promise<void> {
    if (dispatch === undefined) return take(true)
    if (ticksToSave > 0) ticksToSave--
    if (ticksToSave === 0) await group.save(false)
  }

  /** What has begun may grow to as much again. */
  function checkSpace(): void {
    if (sessions.bytes(key.thing) < thingBytesMax / 2) return
    const sentence = 'the channel has too many shared subscriptions: use fewer share names and filters, or try again when some have expired'
    throw new FilterError(reasons.quotaExceeded, sentence)
  }

  function note(error: unknown): void {
    // Once, as each second tries again.
    logger[!isUnavailable(error) ? 'error' : hasFailed ? 'debug' : 'warn'](
      { err: error, group: name },
      'cannot take or save a shared subscription of MQTT',
    )
    hasFailed = true
  }

  const group = {
    users: 0,
    /** How long the position is kept without members. */
    expirySeconds: 0,
    members,
    opened: take(false),
    wake: (): void => dispatch?.wake(),
    left(member: Member): void {
      members.delete(member)
      dispatch?.left(member)
    },
    async save(isEnd: boolean): Promise<void> {
      if (dispatch === undefined) return
      const positions = { [channel]: { ...dispatch.position(), isEnd } }
      ticksToSave = renewalTicks
      try {
        const keptSeconds = isEnd && group.expirySeconds === 0 ? unkeptSeconds : group.expirySeconds + connectedSeconds
        await held!.save({ ...nothingKept, positions, keptSeconds })
        hasFailed = false
      } catch (error) {
        ticksToSave = 0
        throw error
      }
    },
    /** Never rejects. */
    async close(): Promise<void> {
      isClosed = true
      timer.stop()
      await working
      await group.save(true).catch(note)
      dispatch?.stop()
      held?.release()
    },
  }
  let working: Promise<void> = group.opened.catch(() => undefined)
  const timer = startTimer(tickMs, () => {
    working = working.then(tick).catch(note)
    void working.then(() => {
      if (!isClosed) timer.restart()
    })
  })
  return group
}
