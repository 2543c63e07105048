// Routes whose body is read as JSON whatever the request calls it: clients send it with a form's content type, or none.

import { jsonParser } from '../config/http/json-body.ts'
import type { HttpServer } from '../config/http/server.ts'

export function takeAnyType(app: HttpServer, routes: (scope: HttpServer) => void): void {
  void app.register(async (scope: HttpServer) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, jsonParser)
    routes(scope)
  })
}
