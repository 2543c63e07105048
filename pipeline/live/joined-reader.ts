// Several topics read as one: the partitions of the first topic come first, then those of the second, and so on.

import type { TopicBounds, TopicReader } from '../topic-reader.ts'

/** Its id changes with the topics and their numbers of partitions, since either moves the others. Chunks keep the partition of their own topic. */
export function joinedReader(readers: readonly TopicReader[]): TopicReader {
  if (readers.length === 1) return readers[0]!
  const parts = readers.flatMap(reader => Array.from({ length: reader.partitions }, (_, partition) => ({ reader, partition })))
  return {
    name: readers.map(({ name }) => name).join(', '),
    id: readers.map(({ id, partitions }) => `${id} ${partitions}`).join(),
    partitions: parts.length,
    async bounds() {
      const found = new Map(await Promise.all(readers.map(async reader => [reader, await reader.bounds()] as const)))
      // One that was added since is not among the parts.
      return new Map(
        parts.map(({ reader, partition }, at): [number, TopicBounds] => [at, found.get(reader)!.get(partition) ?? { start: 0, end: 0 }]),
      )
    },
    read(at, from, to) {
      const { reader, partition } = parts[at]!
      return reader.read(partition, from, to)
    },
    async close() {
      await Promise.all(readers.map(reader => reader.close()))
    },
  }
}
