// Keeps a map bounded: the oldest entry makes room for a new one.

/** Adds an entry as the newest, and drops the oldest if there are then more than `max`. */
export function setBounded<Key, Value>(map: Map<Key, Value>, key: Key, value: Value, max: number): void {
  map.delete(key)
  map.set(key, value)
  if (map.size > max) for (const oldest of map.keys()) return void map.delete(oldest)
}
