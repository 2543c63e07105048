// Makes a reader of a log in this process a live one: it reads after each append.

import type { TopicReader } from '../topic-reader.ts'
import type { LiveReader } from './tail.ts'

/** @param onAppend calls its listener after each append, until the function that it returns is called */
export function readerOfAppends(reader: TopicReader, onAppend: (listener: () => void) => () => void): LiveReader {
  return {
    ...reader,
    async *follow(next, signal) {
      const offsets = [...next]
      let news = Promise.withResolvers<void>()
      const wake = (): void => news.resolve()
      const forget = onAppend(wake)
      signal.addEventListener('abort', wake)
      try {
        while (!signal.aborted) {
          news = Promise.withResolvers()
          for (const [partition, { end }] of await reader.bounds()) {
            if (end < offsets[partition]!) return
            for await (const chunk of reader.read(partition, offsets[partition]!, end)) {
              if (signal.aborted) return
              yield { partition, chunk }
              offsets[partition] = chunk.to
            }
          }
          await news.promise
        }
      } finally {
        forget()
        signal.removeEventListener('abort', wake)
      }
    },
  }
}
