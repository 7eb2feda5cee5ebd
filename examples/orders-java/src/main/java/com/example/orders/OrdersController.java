package com.example.orders;

import java.util.List;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;

/**
 * The orders over HTTP: 200 when Kafka has acknowledged what was posted, 402 for a basket that is
 * not paid, 503 when Kafka did not answer in time.
 */
@RestController
public class OrdersController {
    private final Orders orders;

    public OrdersController(Orders orders) {
        this.orders = orders;
    }

    @PostMapping("/orders/{number}")
    void take(@PathVariable String number) {
        orders.take(number);
    }

    @PostMapping("/baskets/{numbers}")
    void takeBasket(@PathVariable List<String> numbers) {
        orders.takeBasket(numbers);
    }

    @GetMapping("/orders")
    List<String> all() {
        return orders.all("read_committed");
    }

    @ExceptionHandler(Orders.NotPaid.class)
    @ResponseStatus(HttpStatus.PAYMENT_REQUIRED)
    void notPaid() {
    }

    @ExceptionHandler
    @ResponseStatus(HttpStatus.SERVICE_UNAVAILABLE)
    String notAnswered(Exception error) {
        return error.toString();
    }
}
