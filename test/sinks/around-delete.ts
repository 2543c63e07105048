// What happens just before a removal of rows, and just behind it, in a store of which a connection sends the deletes.

interface Removing<Given extends unknown[]> {
  remove(...given: Given): Promise<void>
}

/** Calls `first` before the first delete is sent, and `then` when it was answered. */
export function aroundDelete<Given extends unknown[]>(
  connection: Removing<Given>,
  first: () => Promise<unknown>,
  then: () => void = () => undefined,
): void {
  const remove = connection.remove.bind(connection)
  let times = 0
  Object.assign(connection, {
    remove: async (...given: Given) => {
      if (times++ === 0) await first()
      await remove(...given)
      then()
    },
  })
}
