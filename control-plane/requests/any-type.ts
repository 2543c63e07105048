// Routes whose body is read as JSON whatever its content type: clients send it with a form's content type, or none.

import { jsonParser } from '../../http/requests/json-body.ts'
import type { HttpServer } from '../../http/server.ts'

export function takeAnyType(app: HttpServer, routes: (scope: HttpServer) => void): void {
  void app.register(async (scope: HttpServer) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, jsonParser)
    routes(scope)
  })
}
