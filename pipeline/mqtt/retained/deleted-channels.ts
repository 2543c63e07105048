// Removes retained messages of channels when they are deleted: within a second, or, if the change was missed, when this process follows the changes again.

import { pause } from '../../../config/aborting.ts'
import type { Logger } from '../../../config/logger.ts'
import { type AccessControl, AccessUnavailableError, deletedChannelsMax } from '../../../control-plane/client.ts'
import { LogUnavailableError } from '../../log.ts'
import type { RetainedStore } from './store.ts'

const retryMs = 1_000

/** @returns a function that stops it */
export function removeWithChannels(
  access: AccessControl,
  retained: Pick<RetainedStore, 'ready' | 'channels' | 'messagesOf' | 'clear'>,
  logger: Pick<Logger, 'error'>,
): () => void {
  const stop = new AbortController()
  /** Channels that may have been deleted. */
  const due = new Set<string>()
  /** From the start, since channels may have been deleted before. */
  let areAllDue = true
  let isWorking = false

  async function work(): Promise<void> {
    if (isWorking) return
    isWorking = true
    while ((areAllDue || due.size > 0) && !stop.signal.aborted) {
      try {
        await sweep()
      } catch (error) {
        if (!(error instanceof AccessUnavailableError || error instanceof LogUnavailableError)) {
          logger.error({ err: error }, 'cannot remove retained messages of deleted channels')
        }
        await pause(retryMs, stop.signal)
      }
    }
    isWorking = false
  }

  async function sweep(): Promise<void> {
    await retained.ready()
    if (areAllDue) for (const channel of retained.channels()) due.add(channel)
    areAllDue = false
    const channels = [...due].slice(0, deletedChannelsMax)
    // Before they are asked about, as each may change meanwhile.
    for (const channel of channels) due.delete(channel)
    try {
      const deleted = channels.length === 0 ? [] : await access.deletedChannels(channels)
      await Promise.all(deleted.flatMap(channel => [...retained.messagesOf(channel)].map(topic => retained.clear(topic))))
    } catch (error) {
      for (const channel of channels) due.add(channel)
      throw error
    }
  }

  const forget = access.onChange(change => {
    if (change.kind === 'unheard') areAllDue = true
    else if (change.kind === 'channel' && [...retained.messagesOf(change.channel)].length > 0) due.add(change.channel)
    void work()
  })
  void work()
  return () => {
    forget()
    stop.abort()
  }
}
