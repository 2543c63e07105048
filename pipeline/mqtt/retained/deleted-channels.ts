// Removes retained messages of channels when they are deleted: within a second, or, if the change was missed, when this process follows the changes again.

import type { Logger } from '../../../config/logger.ts'
import { type AccessControl, deletedChannelsMax } from '../../../control-plane/client.ts'
import { openDue } from '../due.ts'
import type { RetainedStore } from './store.ts'

/** Stands for all that have messages: they may have been deleted before the start, or when changes were missed. */
const all = ''

/** @returns a function that stops it */
export function removeWithChannels(access: AccessControl, retained: RetainedStore, logger: Pick<Logger, 'error'>): () => void {
  /** Channels that may have been deleted. */
  const due = openDue<string>({
    atOnce: deletedChannelsMax,
    logger,
    failure: 'cannot remove retained messages of deleted channels',
    async work(channels) {
      await retained.ready()
      if (channels.includes(all)) due.add(retained.channels())
      const named = channels.filter(channel => channel !== all)
      const deleted = named.length === 0 ? [] : await access.deletedChannels(named)
      await Promise.all(deleted.flatMap(channel => [...retained.messagesOf(channel)].map(topic => retained.clear(topic))))
      return []
    },
  })
  const forget = access.onChange(change => {
    if (change.kind === 'unheard') due.add([all])
    else if (change.kind === 'channel' && [...retained.messagesOf(change.channel)].length > 0) due.add([change.channel])
  })
  due.add([all])
  return () => {
    forget()
    due.stop()
  }
}
