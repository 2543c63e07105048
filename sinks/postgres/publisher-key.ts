// By what the rows of one publisher in one channel are found.
//
// A hash in place of both texts: eight bytes, which cost the index half of what the texts cost it. Whoever looks by it compares the texts too.

/** As SQL, of columns or values. PostgreSQL keeps this function as it is: its own hash partitions stand on it. */
export function publisherKey(publisher = 'publisher', channel = 'channel'): string {
  return `hashtextextended(${publisher}, hashtextextended(${channel}, 0))`
}
